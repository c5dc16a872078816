"use strict";

// Shows the sentence of each event, until there is more.
async function follow() {
  const token = location.hash.startsWith("#t=") ? location.hash.slice(3) : null;
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const response = await fetch("/v1/live", { headers });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = JSON.parse(event.slice(event.indexOf("data: ") + 6));
      if (data.sentence) document.getElementById("main").textContent = data.sentence.text;
    }
  }
}

follow();
