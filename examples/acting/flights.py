"""A booking service: an agent that books flights, and the world that it acts on.

    POST /chat?session=ID    the agent: {"messages": […]} → {"answer": …, "messages": […]}, with its calls of tools
    GET  /state?session=ID   the world: {"bookings": […], "updatedAt": …}
    POST /reset?session=ID   the world as it was at first
    POST /v1/chat/completions   a scripted model that plays users (player.py)

Each session is a world of its own. The agent needs no model: it knows a few words. The environment variable FLIGHTS_BUG
makes it worse: `cancel` cancels another booking with each new one, `forget` knows only the last message.
"""

import argparse
import json
import os
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from player import play

FLIGHTS = {"Paris": ["AF12", "AF34"], "Rome": ["AZ7"], "Oslo": ["SK5"]}
NUMBERS = {"one": 1, "two": 2, "three": 3, "a": 1}
BUG = os.environ.get("FLIGHTS_BUG", "")
WORLDS = {}


class World:
    """Bookings, and the tools that read and change them."""

    def __init__(self):
        self.bookings = [{"id": 1, "city": "Oslo", "flight": "SK5", "seats": 1}]
        self.updated_at = 0.0

    def show(self):
        return {"bookings": self.bookings, "updatedAt": self.updated_at}

    def find_flights(self, to):
        return FLIGHTS.get(to, [])

    def list_bookings(self):
        return self.bookings

    def book_flight(self, flight, seats):
        city = next(city for city, flights in FLIGHTS.items() if flight in flights)
        number = max((one["id"] for one in self.bookings), default=0) + 1
        if BUG == "cancel":
            self.bookings = self.bookings[1:]
        self.bookings = [*self.bookings, {"id": number, "city": city, "flight": flight, "seats": seats}]
        self.updated_at = time.time()
        return {"booking": number}

    def cancel_booking(self, booking):
        self.bookings = [one for one in self.bookings if one["id"] != booking]
        self.updated_at = time.time()
        return "cancelled"


class Agent:
    """Answers a conversation. `messages`: its calls, their results and the answer, as in chat completions."""

    def __init__(self, world):
        self.world, self.messages = world, []

    def call(self, name, **arguments):
        call = {"id": f"call_{len(self.messages)}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        result = getattr(self.world, name)(**arguments)
        self.messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)},
        ]
        return result

    def answer(self, conversation):
        said = [one["content"] for one in conversation if one["role"] == "user"]
        text = self.decide(said[-1:] if BUG == "forget" else said)
        self.messages.append({"role": "assistant", "content": text})
        return {"answer": text, "messages": self.messages}

    def decide(self, said):
        last = said[-1].lower()
        if "thank" in last:
            return "You are welcome."
        city = find_last(r"\bto ([A-Z]\w+)", said)
        if "cancel" in last:
            return self.cancel(city)
        if city is None:
            return "Where do you want to go?"
        if "which flights" in last:
            return f"Flights to {city}: {', '.join(self.call('find_flights', to=city)) or 'none'}."
        number = find_last(r"(?i)\b(one|two|three|a)\b(?: seats?\b|, please)", said)
        if number is None:
            return "How many seats do you need?"
        flights = self.call("find_flights", to=city)
        if not flights:
            return f"There is no flight to {city}."
        self.call("book_flight", flight=flights[0], seats=NUMBERS[number.lower()])
        return f"I booked flight {flights[0]} to {city}."

    def cancel(self, city):
        mine = [one for one in self.call("list_bookings") if one["city"] == city]
        for one in mine:
            self.call("cancel_booking", booking=one["id"])
        return f"I cancelled your flight to {city}." if mine else f"You have no flight to {city}."


def find_last(pattern, texts):
    """Return what the group of a pattern last matched in any of the texts; None if it never did."""
    return next((found[-1] for text in reversed(texts) if (found := re.findall(pattern, text))), None)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        known = {"/health": lambda: {"status": "ok"}, "/state": self.find_world().show}
        self.reply(known.get(urlsplit(self.path).path))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        known = {
            "/chat": lambda: Agent(self.find_world()).answer(body["messages"]),
            "/v1/chat/completions": lambda: play(body),
            "/reset": lambda: {"forgotten": WORLDS.pop(self.session, None) is not None},
        }
        self.reply(known.get(urlsplit(self.path).path))

    @property
    def session(self):
        return parse_qs(urlsplit(self.path).query).get("session", [""])[0]

    def find_world(self):
        return WORLDS.setdefault(self.session, World())

    def reply(self, compute):
        raw = json.dumps({"error": "not found"} if compute is None else compute()).encode()
        self.send_response(404 if compute is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8923)
    ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler).serve_forever()
