"use strict";
// A run as the page holds it: numbers decoded when they are first needed, its score, and what its rounds cost.

const SCORES = ["test_balanced_accuracy", "test_accuracy", "val_accuracy"];
const SMOOTH = 5; // evaluated rounds over which a score is averaged: single rounds are noisy

/** One recorded column; a round in which nothing was recorded has the value null. */
class Column {
  constructor({ exact, data, at, bad }, length) {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    const numbers = exact ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
    this.numbers = numbers;
    this.bad = bad ?? Infinity;
    this.places = at ? new Int32Array(length).fill(-1) : null;
    at?.forEach((place, k) => {
      this.places[place] = k;
    });
  }

  value(i) {
    if (i >= this.bad) throw new Unjudged("a recorded value is not a number");
    if (!this.places) return this.numbers[i];
    return this.places[i] < 0 ? null : this.numbers[this.places[i]];
  }

  /** As `value`, with null for what has no place in a picture: no number, or larger than a scale can span. */
  shown(i) {
    const value = i < this.bad ? this.value(i) : null;
    return Math.abs(value) < 1e300 ? value : null;
  }
}

class Run {
  constructor(raw) {
    this.raw = raw;
    this.name = raw.name;
    this.spec = raw.spec;
    this.problem = raw.problem ?? "";
    this.watched = raw.watched.filter((one) => one.rule in RULES);
    this.rounds = Array.isArray(raw.rounds) ? raw.rounds : Array.from({ length: raw.rounds }, (_, i) => i + 1);
    this.last = this.rounds.at(-1) ?? 0;
    this.cache = new Map();
    this.scoreName =
      [...SCORES, ...this.names("accuracy")].find((name) => this.has(name) && raw.columns[name].data) ?? null;
  }

  has(name) {
    return name in this.raw.columns;
  }

  names(part) {
    return Object.keys(this.raw.columns).filter((name) => name.includes(part));
  }

  once(key, make) {
    if (!this.cache.has(key)) this.cache.set(key, make());
    return this.cache.get(key);
  }

  column(name) {
    return this.once(name, () => new Column(this.raw.columns[name], this.rounds.length));
  }

  series(name) {
    return this.once(`series ${name}`, () => this.rounds.map((_, i) => this.column(name).shown(i)));
  }

  /** Mean of the last evaluated rounds up to each round; null before the first. */
  get score() {
    return this.once("score", () => {
      const recent = [];
      return (this.scoreName ? this.series(this.scoreName) : this.rounds.map(() => null)).map((value) => {
        if (value !== null && recent.push(value) > SMOOTH) recent.shift();
        return recent.length ? recent.reduce((sum, one) => sum + one, 0) / recent.length : null;
      });
    });
  }

  /** What the model is doing in each round: {exponent, motion}. */
  get moved() {
    return this.once("moved", () => motionOf(this));
  }

  get best() {
    return this.once("best", () => maximum(this.score));
  }

  /** Sum of a cost over the rounds up to each round; null if it was not recorded. */
  spent(name) {
    return this.once(`spent ${name}`, () => {
      let sum = 0;
      return this.has(name) ? this.series(name).map((value) => (sum += value ?? 0)) : null;
    });
  }

  /** What a verdict means for this run; one that never stops uses the whole record. */
  outcome(verdict) {
    const end = this.rounds.length - 1;
    const index = verdict.stop === null ? end : verdict.index;
    const score = this.score[index] ?? null;
    const left = (name) => {
      const spent = this.spent(name);
      return spent && end >= 0 ? spent[end] - spent[index] : null;
    };
    const used = verdict.stop ?? this.last;
    return {
      ...verdict,
      exponent: null,
      motion: "",
      ...this.moved[index],
      index,
      used,
      score,
      share: this.last ? used / this.last : null,
      kept: score !== null && this.best > 0 ? score / this.best : null,
      regret: score === null ? null : this.best - score,
      saved: { rounds: this.last - used, seconds: left("seconds"), bytes: left("bytes") },
    };
  }
}

const maximum = (values) =>
  values.reduce((best, value) => (value !== null && (best === null || value > best) ? value : best), null);
const known = (values) => values.filter((value) => value !== null && value !== undefined);
const sum = (values) => (known(values).length ? known(values).reduce((total, value) => total + value, 0) : null);
const mean = (values) => (known(values).length ? sum(values) / known(values).length : null);
const median = (values) => {
  const sorted = known(values).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
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

/** Numbers as people read them; a dash for what is not known. */
const text = {
  number: (value) =>
    value === null || value === undefined
      ? "–"
      : Number.isInteger(value)
        ? String(value)
        : String(Number(value.toPrecision(4))),
  percent: (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`),
  points: (value, unit = " points") => (value === null ? "–" : `${(100 * value).toFixed(1)}${unit}`),
  bytes: (value) => {
    if (value === null) return "–";
    const power = Math.min(4, Math.floor(Math.log10(Math.max(1, value)) / 3));
    return `${Number((value / 1000 ** power).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
  },
  seconds: (value) => {
    if (value === null) return "–";
    const [size, unit] = value < 100 ? [1, "s"] : value < 6000 ? [60, "min"] : [3600, "h"];
    return `${(value / size).toFixed(1)} ${unit}`;
  },
  settings: (rule, settings) => [rule, ...Object.entries(settings).map(([key, value]) => `${key} ${value}`)].join(", "),
  short: (rule, settings) =>
    [rule, ...Object.entries(settings).map(([key, value]) => `${SYMBOLS[key]}\u202f=\u202f${value}`)].join(" "),
};
