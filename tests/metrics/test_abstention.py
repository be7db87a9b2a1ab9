import pytest

from evalspec.scoring.metrics.abstention import is_abstention

DECLINES = [
    "I don't know.",
    "i don’t know",
    "I do not know",
    "I don't know the answer to that question.",
    "I really don't know!",
    "We don't know.",
    "I'm sorry, but I don't know.",
    "Sorry, I don't know. Could you rephrase your question?",
    "Unfortunately, I cannot answer this question.",
    "I cannot answer that based on the provided context.",
    "I'm unable to answer this question based on the given documents.",
    "Based on the provided context, I cannot answer the question.",
    "I could not find the answer in the provided documents.",
    "I couldn't find any information about refunds for annual plans.",
    "I don't have enough information to answer that question.",
    "I do not have access to that information.",
    "I have no information about opening hours in the provided context.",
    "The documents do not say.",
    "The provided context does not mention it.",
    "The context does not contain enough information to answer the question.",
    "The provided documents do not contain any information about the warranty of the lamp.",
    "There is no information about that in the documents.",
    "No relevant information was found in the context.",
    "This information is not available in the provided context.",
    "The answer is not in the documents.",
    "It is not available in the provided context.",
    "The answer is not known.",
    "That information is not available.",
    "I could not find the answer in our documents.",
    "I'm not sure.",
    "**I don't know.**",
    '"Unknown"',
    "N/A",
    "Das weiß ich nicht.",
    "Das weiss ich leider nicht.",
    "Leider kann ich das nicht beantworten.",
    "Es tut mir leid, aber das kann ich nicht beantworten.",
    "Darüber habe ich keine Informationen.",
    "Die Dokumente enthalten dazu keine Informationen.",
    "Je ne sais pas.",
    "Désolé, je ne peux pas répondre à cette question.",
    "No lo sé.",
    "Lo siento, pero no puedo responder a esa pregunta.",
    "Non lo so.",
    "Não sei.",
    "Dat weet ik niet.",
    "Det vet jag inte.",
    "Nie wiem.",
    "Я не знаю.",
    "К сожалению, я не могу ответить на этот вопрос.",
    "Не знаю.",
    "Bilmiyorum.",
    "我不知道。",
    "抱歉，根据提供的资料，我无法回答这个问题。",
    "わかりません。",
    "申し訳ありませんが、その質問には回答できません。",
    "잘 모르겠습니다.",
    "제공된 문서로는 답변할 수 없습니다.",
    "لا أعرف.",
    "मुझे नहीं पता।",
]
STATEMENTS = [
    "I don't know of any better city than Paris, which has 2 million inhabitants.",
    "I don't know, but Paris is the capital.",
    "I don't know. Paris has 2 million inhabitants.",
    "I don't know; it costs 20 euros.",
    "I don't know about Lyon but Paris is the capital.",
    "I don't know about Lyon, Paris is the capital.",
    "I don't know about Lyon: Paris is the capital.",
    "I have no information about any capital other than Paris.",
    "I have no information about that because the shop closed.",
    "I couldn't find information about refunds after the 30 days that are granted.",
    "The documents do not say that refunds are paid within 30 days.",
    "The context does not mention a limit, so there is none.",
    "The context does not contain information about cats and dogs are allowed.",
    "There is no answer. The office is closed.",
    "There is no free trial.",
    "No.",
    "No, refunds are not paid.",
    "Sorry.",
    "I'm sorry, but refunds take 30 days.",
    "Unfortunately, refunds are not possible.",
    "Based on the provided context, refunds take 30 days.",
    "The author does not know.",
    "It is not available.",
    "It is not provided.",
    "It is not known.",
    "Our documentation does not cover this.",
    "I have no details about your new free lifetime unlimited gold plan.",
    "I do not know about the 30 day refund.",
    "You cannot answer a call while the phone is off.",
    "Nobody knows that the answer is 42.",
    "I know.",
    "The password is unknown to support staff.",
    "The information is not available on Sundays.",
    "I do not know. " * 30,
    "Could you rephrase your question?",
    "Please contact support.",
    "",
    " \n",
    "Das weiß ich nicht, aber Berlin hat 3 Millionen Einwohner.",
    "Ich weiß nicht, ob das stimmt. Berlin ist die Hauptstadt.",
    "Ich kann die Frage beantworten.",
    "Je ne sais pas, mais Paris est la capitale.",
    "No sé de ninguna ciudad mejor que París.",
    "Я не знаю города лучше Парижа.",
    "我不知道比巴黎更好的城市。",
    "わかりませんが、パリは首都です。",
    "잘 모르겠습니다. 파리는 수도입니다.",
]


@pytest.mark.parametrize("text", DECLINES)
def test_an_answer_that_only_declines(text):
    assert is_abstention(text)


@pytest.mark.parametrize("text", STATEMENTS)
def test_an_answer_that_may_state_something(text):
    assert not is_abstention(text)


@pytest.mark.parametrize(
    "beginning", ["I don't know about ", "Based on the context, " * 9, "I have no information on ", "the " * 60]
)
def test_no_text_takes_long(beginning):
    """A pattern that tries everything would not come back from this."""
    assert not is_abstention((beginning + "the any provided given available " * 9)[:299] + "!?")
