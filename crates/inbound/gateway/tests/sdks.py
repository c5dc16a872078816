"""Python's HTTP clients and the SDKs of two vendors, pointed at a gateway. Arguments: its address."""

import sys

import anthropic
import httpx
import openai
import requests

gateway = sys.argv[1]

# The vendor answers with what it got: the path, and the length of the body.
echo = requests.post(f"{gateway}/openai/echo%2Fpath?q=1%202", data=b"x" * 5000, headers={"authorization": "Bearer k"})
print("requests", echo.status_code, echo.json()["path"], echo.json()["received_bytes"])

with httpx.Client(base_url=f"{gateway}/openai/") as client:
    def pieces():
        for _ in range(3):
            yield b"y" * 1000
    echo = client.post("upload", content=pieces())
    print("httpx", echo.status_code, echo.json()["path"], echo.json()["received_bytes"])

# Both packages read their base URL from a variable, which the test sets.
chat = openai.OpenAI(api_key="key-of-openai")
question = [{"role": "user", "content": "Hello"}]
answer = chat.chat.completions.create(model="m", messages=question, max_tokens=6)
print("openai", answer.choices[0].message.content, answer.usage.completion_tokens)
words = [
    chunk.choices[0].delta.content or ""
    for chunk in chat.chat.completions.create(
        model="m", messages=question, max_tokens=6, stream=True, stream_options={"include_usage": True}
    )
    if chunk.choices
]
print("openai stream", "".join(words))

claude = anthropic.Anthropic(api_key="key-of-anthropic")
answer = claude.messages.create(model="m", messages=question, max_tokens=6)
print("anthropic", answer.content[0].text, answer.usage.output_tokens)
with claude.messages.stream(model="m", messages=question, max_tokens=6) as stream:
    print("anthropic stream", "".join(stream.text_stream))

# There is room for one more call this hour only after a long time: the SDK is told at once, and does not retry.
try:
    chat.with_options(max_retries=5).chat.completions.create(model="m", messages=question, max_tokens=9_999_950)
    print("no refusal")
except openai.RateLimitError as error:
    print("refused", error.response.headers["tollway-refused-by"], error.response.headers["x-should-retry"])
