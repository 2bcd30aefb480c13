"use strict";
// The live page: asks the server what changed, once a second; whatever happens, it keeps asking.

const PAUSE = 1000;

/** What changed since that version, or null if the server does not answer. */
async function news(version) {
  try {
    const answer = await fetch(`runs?after=${version}`, { cache: "no-store" });
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

async function follow() {
  const byName = new Map();
  let version = "";
  at("live").hidden = false;
  at("live").textContent = "Reading the runs …";
  for (;;) {
    const heard = await news(version);
    if (heard) {
      if (heard.all) byName.clear(); // the first answer, or another server
      for (const raw of heard.runs) byName.set(raw.name, new Run(raw));
      for (const name of heard.gone) byName.delete(name);
      version = heard.version;
      if (heard.all || heard.runs.length || heard.gone.length) take([...byName.values()]);
    }
    at("live").classList.toggle("problem", !heard);
    at("live").textContent = heard
      ? `Live: ${heard.quiet === null ? "nothing is recorded yet" : `last change ${text.seconds(heard.quiet)} ago`}.`
      : "The server does not answer. The page shows the last data and keeps trying.";
    await new Promise((resolve) => {
      setTimeout(resolve, PAUSE);
    });
  }
}
