"""One prompt, sent twice: the second time most of it is cached, and the server says why the rest was not.

anaphora serve        (in another terminal)
python examples/quickstart.py [URL]
"""

import sys
import time

import requests

BASE_URL = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8000"
RULES = "You are a careful librarian. Answer briefly, name your sources, and say so when you do not know. " * 10


def ask(question):
    start = time.perf_counter()
    answer = requests.post(
        f"{BASE_URL}/v1/chat/completions",
        json={
            "messages": [{"role": "system", "content": RULES}, {"role": "user", "content": question}],
            "max_tokens": 8,
            "temperature": 0,
            "include_ledger": True,
        },
    ).json()
    usage = answer["usage"]
    details = usage["prompt_tokens_details"]
    print(f"{question!r}: {time.perf_counter() - start:.2f} s")
    print(
        f"  {details['cached_tokens']} of {usage['prompt_tokens']} prompt tokens cached; {details['ledger']['reasons']}"
    )


for question in ("Who wrote the Iliad?", "Who wrote the Aeneid?"):
    ask(question)
