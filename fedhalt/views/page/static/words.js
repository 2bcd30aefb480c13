"use strict";
// What the rules saw and what the model does, in the words of every view; the stored codes stay as they are.

/** What the rule saw, "growth below threshold", from the stored reason. */
function reasonText(rule, reason) {
  const words = WORDS.reasons[reason];
  return words ? (words[rule] ?? words[""]) : reason;
}

/** Whether growth fell because rounds went by, while the model still moved. */
const byTheClock = ({ rule, reason, motion }) =>
  reason === "saturated" && WORDS.clocks.includes(rule) && ["still moving", "diffusing"].includes(motion);

/** What the model does in that round, with its exponent; two rounds have one slope, which says nothing yet. */
function motionText({ exponent, motion }, round) {
  if (!motion || round <= 2) return "–";
  return exponent === null ? motion : `${motion} (${exponent.toFixed(2).replace("-0.00", "0.00")})`;
}

/** Whether ten rounds go somewhere or only scatter around one place. */
function driftText(drift) {
  if (drift === null) return "–";
  const { scattering, drifting } = WORDS.drift;
  const word = ["scattering", "settling", "drifting"][(drift >= scattering) + (drift >= drifting)];
  return `${word} (${drift < 10 ? drift.toFixed(1) : drift.toFixed(0)})`;
}

/** Why a run ended, and what the model was doing then. */
function whyText(one) {
  const said = reasonText(one.rule, one.reason);
  const moved = one.motion && one.used > 2 && one.reason !== "diverged" ? `model ${one.motion}` : "";
  return [said, moved].filter((part) => part).join("; ");
}

/** Names of columns as people say them: "balanced test accuracy". */
function columnText(name) {
  if (name === DRIFT) return "drift of ten rounds";
  const parts = name.split("_");
  const average = parts.at(-1) === "average" && parts.length > 1;
  const [first, ...rest] = average ? parts.slice(0, -1) : parts;
  const where = { test: "test", val: "validation", client: "client" }[first];
  const said = where && rest.length ? [...rest.slice(0, -1), where, rest.at(-1)] : [first, ...rest];
  return said.join(" ") + (average ? ", averaged model" : "");
}

/** Numbers as people read them; a dash for what is not known. */
const text = {
  number: (value) => {
    if (value === null || value === undefined) return "–";
    if (Number.isInteger(value)) return value >= 10_000 ? value.toLocaleString("en-US") : String(value);
    return String(Number(value.toPrecision(4)));
  },
  percent: (value) => (value === null ? "–" : `${(100 * value).toFixed(1)}%`),
  points: (value, unit = " points") => (value === null ? "–" : `${(100 * value).toFixed(1)}${unit}`),
  bytes: (value) => {
    if (value === null) return "–";
    const power = Math.min(4, Math.floor(Math.log10(Math.max(1, value)) / 3));
    return `${Number((value / 1000 ** power).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
  },
  seconds: (value) => {
    if (value === null) return "–";
    if (value < 100) return `${value.toFixed(1)} s`;
    if (value < 6000) return `${(value / 60).toFixed(1)} min`;
    return `${(value / 3600).toFixed(1)} h`;
  },
  settings: (rule, settings) => [rule, ...Object.entries(settings).map(([key, value]) => `${key} ${value}`)].join(", "),
  short: (rule, settings) =>
    [rule, ...Object.entries(settings).map(([key, value]) => `${SYMBOLS[key]}\u202f=\u202f${value}`)].join(" "),
};
const SYMBOLS = { threshold: "τ", patience: "ρ", rounds: "R" };

/** Texts in the order of people: numbers in them, 0.05 and 0.2, by their size. */
function natural(a, b) {
  const [left, right] = [a, b].map((one) => String(one).split(/(\d+(?:\.\d+)?)/));
  for (let k = 0; k < Math.min(left.length, right.length); k++) {
    const order = k % 2 ? left[k] - right[k] : left[k].localeCompare(right[k], "en");
    if (order) return order;
  }
  return left.length - right.length;
}
