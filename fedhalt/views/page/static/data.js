"use strict";
// A run as the page holds it: numbers decoded when they are first needed, its score, and what its rounds cost.

const SCORES = ["test_balanced_accuracy", "test_accuracy", "val_balanced_accuracy", "val_accuracy"];
const AVERAGE = "_average"; // how the columns of the averaged model end
const DRIFT = "drift_10";
const SMOOTH = 5; // evaluated rounds over which a score is averaged: single rounds are noisy
const RISE = 0.05; // of the accuracy over the first evaluated round, below which a run has learned nothing

const KINDS = { f8: Float64Array, f4: Float32Array, u2: Uint16Array, u1: Uint8Array };

/** Numbers from base64, in which first bytes come first, then second bytes, and so on. */
function decoded(kind, data) {
  const planes = atob(data);
  const size = KINDS[kind].BYTES_PER_ELEMENT;
  const count = planes.length / size;
  const bytes = new Uint8Array(planes.length);
  for (let k = 0; k < planes.length; k++) bytes[(k % count) * size + Math.floor(k / count)] = planes.charCodeAt(k);
  return new KINDS[kind](bytes.buffer);
}

/** One column; a round in which nothing was recorded has the value null. */
class Column {
  constructor({ kind, data, from, at, bad, low, step }, length) {
    const numbers = decoded(kind, data);
    this.numbers = kind === "u2" ? Float64Array.from(numbers, (place) => low + place * step) : numbers;
    this.bad = bad ?? Infinity;
    const places = from ? Array.from(numbers, (_, k) => from + k) : at;
    this.places = places ? new Int32Array(length).fill(-1) : null;
    places?.forEach((place, k) => {
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

/** A rule's signal over the rounds that it can judge. */
class Signals {
  constructor(raw) {
    this.raw = raw;
    this.diverged = raw.diverged ?? -1;
    this.column = raw.rounds ? new Column(raw, raw.rounds) : null;
  }

  value(i) {
    if (i >= this.raw.rounds) throw new Unjudged(this.raw.problem);
    return this.column.value(i);
  }

  /** The word for a streak that is full in this round. */
  reason(i, still) {
    return this.raw.reasons.findLast(([first]) => first <= i)[1][still ? 0 : 1];
  }
}

const MOTIONS = ["", "still moving", "diffusing", "saturated", "going nowhere", "diverging"];

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
    this.budget = Math.max(raw.budget ?? 0, this.last);
    this.scoreName =
      [...SCORES, ...this.names("accuracy")].find(
        (name) => this.has(name) && raw.columns[name].data && !name.endsWith(AVERAGE),
      ) ?? null;
    this.averageName = this.has(this.scoreName + AVERAGE) ? this.scoreName + AVERAGE : null;
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
  smooth(name) {
    return this.once(`smooth ${name}`, () => {
      const recent = [];
      return (name ? this.series(name) : this.rounds.map(() => null)).map((value) => {
        if (value !== null && recent.push(value) > SMOOTH) recent.shift();
        return recent.length ? recent.reduce((sum, one) => sum + one, 0) / recent.length : null;
      });
    });
  }

  /** The last evaluated value up to each round; null before the first. */
  latest(name) {
    return this.once(`latest ${name}`, () => {
      let last = null;
      return this.series(name).map((value) => (last = value ?? last));
    });
  }

  get score() {
    return this.smooth(this.scoreName);
  }

  signals(name) {
    return this.once(`signals ${name}`, () => new Signals(this.raw.signals[name]));
  }

  /** What the model is doing in each round: {exponent, motion}. */
  get moved() {
    return this.once("moved", () => {
      const { exponent, words } = this.raw.motion;
      const exponents = new Column(exponent, this.rounds.length);
      const codes = decoded(words.kind, words.data);
      return this.rounds.map((_, i) => ({ exponent: exponents.value(i), motion: MOTIONS[codes[i]] }));
    });
  }

  get best() {
    return this.once("best", () => maximum(this.score));
  }

  /** Whether its accuracy ever rose; keeping all of nothing would say nothing. */
  get learned() {
    return this.best !== null && this.best - this.score.find((value) => value !== null) >= RISE;
  }

  /** Sum of a cost over the rounds up to each round; null if it was not recorded. */
  spent(name) {
    return this.once(`spent ${name}`, () => {
      let sum = 0;
      return this.has(name) ? this.series(name).map((value) => (sum += value ?? 0)) : null;
    });
  }

  /** A cost of the rounds after that one up to the budget; rounds that were never run cost as much as the mean one. */
  left(name, index) {
    const spent = this.spent(name);
    if (!spent?.length) return null;
    const whole = spent.at(-1);
    return whole - spent[index] + (whole / spent.length) * (this.budget - this.last);
  }

  /** What a verdict means for this run: a rule that cannot judge it says nothing, one that never stops saves nothing. */
  outcome(verdict) {
    const judged = !verdict.problem && this.rounds.length > 0;
    const stopped = judged && verdict.stop !== null;
    const decided = stopped || (judged && this.last === this.budget); // a record cut short does not say what comes later
    const index = stopped ? verdict.index : this.rounds.length - 1;
    const of = (smooth) => (judged ? (smooth[index] ?? null) : null);
    const score = of(this.score);
    const used = verdict.stop ?? this.last;
    const saved = (amount) => (stopped ? amount() : null);
    return {
      ...verdict,
      exponent: null,
      motion: "",
      ...this.moved[index],
      index,
      used,
      budget: this.budget,
      decided,
      score,
      average: this.averageName ? of(this.latest(this.averageName)) : null,
      drift: this.has(DRIFT) ? of(this.series(DRIFT)) : null,
      share: decided ? used / this.budget : null,
      kept: decided && score !== null && this.learned ? score / this.best : null,
      regret: decided && score !== null ? this.best - score : null,
      saved: {
        rounds: saved(() => this.budget - used),
        seconds: saved(() => this.left("seconds", index)),
        bytes: saved(() => this.left("bytes", index)),
      },
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
