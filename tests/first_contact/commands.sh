pip install evalspec_runner-*.whl
evalspec init --agent bot:answer --data questions.csv
evalspec validate agent.yaml
evalspec evaluate agent.yaml
sed -i.bak 's/14 days/21 days/; s/Dublin/Frankfurt/' bot.py
evalspec evaluate agent.yaml
