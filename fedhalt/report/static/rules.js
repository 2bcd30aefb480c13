"use strict";
// The rules of fedhalt/rules, step for step; tests/test_explorer.py holds their stops against Python's.

/** A record that a rule cannot judge; Python raises an error with the same meaning. */
class Unjudged extends Error {}

const number = (value, name, r) => {
  if (value === null) throw new Unjudged(`round ${r}: ${name} must be a number`);
  return value;
};

/** Python's min and max over two numbers, which differ from Math.min and Math.max for NaN. */
const least = (now) => now.reduce((smallest, value) => (value < smallest ? value : smallest));
const atLeastOne = (value) => (1 > value ? 1 : value);

/** change / before, with 0 / 0 = 0 (nothing moved) and x / 0 = inf (everything did). */
const relative = (change, before) => (before !== 0 ? change / before : change === 0 ? 0 : Infinity);

const isBelow = (value, threshold) => value < threshold;

/** Stops once a quantity stayed below the threshold for `patience` rounds in a row. */
function saturation(reads, quantity, below = isBelow, keep = (before, now) => now[0], signed = 0) {
  return {
    reads,
    begin: () => ({ before: null, streak: 0, still: 0 }),
    step(state, row, r, settings) {
      const now = row.map((value, k) => number(value, reads[k], r));
      const norms = now.slice(0, now.length - signed);
      if (least(norms) < 0) throw new Unjudged(`round ${r}: ${reads.join(" and ")} cannot be negative`);
      const held = quantity(state.before, now);
      const counts = held !== null && below(held, settings.threshold);
      state.still = counts && held === 0 ? state.still + 1 : 0;
      state.streak = counts ? state.streak + 1 : 0;
      state.before = keep(state.before, now);
      const diverged = !now.every(Number.isFinite);
      const stop = diverged || state.streak >= settings.patience;
      const why = diverged ? "diverged" : state.still >= state.streak ? "frozen" : "saturated";
      return { held, streak: state.streak, stop, reason: stop ? why : "" };
    },
  };
}

/** Stops after `patience` evaluations in a row without an improvement of more than the threshold. */
function plateau(column, higher) {
  return {
    reads: [column],
    begin: () => ({ best: higher ? 0 : null, streak: 0 }),
    step(state, [value], r, settings) {
      if (value === null) return { held: null, streak: state.streak, stop: false, reason: "" };
      const scaled = higher ? value * 100 : value; // accuracies are held against percentage points
      const first = state.best === null;
      const held = first ? null : higher ? scaled - state.best : state.best - scaled;
      const better = higher ? scaled > state.best + settings.threshold : scaled < state.best - settings.threshold;
      const improved = first ? scaled === scaled : better;
      state.streak = improved ? 0 : state.streak + 1;
      if (improved) state.best = scaled;
      const stop = state.streak >= settings.patience;
      return { held, streak: state.streak, stop, reason: stop ? "plateau" : "" };
    },
  };
}

const growthAuthors = {
  reads: ["distance"],
  begin: () => ({ before: null, streak: 0 }),
  step(state, [value], r, settings) {
    const delta = number(value, "distance", r);
    const { before } = state;
    const held = before === null ? null : before <= 1e-6 ? 1 : (delta - before) / before;
    if (held !== null && r >= 3 && held !== 0) state.streak = held < settings.threshold ? state.streak + 1 : 0;
    state.before = delta;
    const stop = state.streak >= settings.patience;
    return { held, streak: state.streak, stop, reason: stop ? "saturated" : "" };
  },
};

const wandering = {
  reads: ["distance", "update_norm"],
  begin: () => ({ squares: 0, streak: 0 }),
  step(state, row, r, settings) {
    const [distance, update] = row.map((value, k) => number(value, wandering.reads[k], r));
    if (least([distance, update]) < 0) throw new Unjudged(`round ${r}: distance and update_norm cannot be negative`);
    state.squares += update * update;
    const diverged = !(Number.isFinite(distance) && Number.isFinite(state.squares));
    const walked = Math.sqrt(state.squares);
    const held = distance === 0 ? 0 : walked === 0 ? Infinity : distance / walked;
    state.streak = held < settings.threshold ? state.streak + 1 : 0;
    const stop = diverged || state.streak >= settings.patience;
    const why = diverged ? "diverged" : state.squares !== 0 ? "wandering" : "frozen";
    return { held, streak: state.streak, stop, reason: stop ? why : "" };
  },
};

const budget = {
  reads: [],
  begin: () => ({}),
  step: (state, row, r, settings) => ({
    held: null,
    streak: r,
    stop: r >= settings.rounds,
    reason: r >= settings.rounds ? "budget" : "",
  }),
};

/** What this round added to the way forward: straight on counts twice, straight back not at all. */
function forward(distance, [, update, alignment]) {
  const sum = update + (distance !== 0 ? alignment / distance : update);
  return sum < 0 ? 0 : sum;
}
const wayForward = (before, now) => {
  const [total, distance] = before ?? [0, 0];
  const added = forward(distance, now);
  return [Number.isFinite(added) ? total + added : total, Number.isFinite(now[0]) ? now[0] : distance];
};
const forwardGrowth = (before, now) => {
  const [total, distance] = before ?? [0, 0];
  const added = forward(distance, now);
  return relative(added, total + added);
};

const usual = { threshold: 0.01, patience: 10 };
const first = (quantity) => (before, now) => (before === null ? null : quantity(before, now));

/** By the names of the command line: settings that they have unless others are given, and what they compute. */
const RULES = {
  growth: {
    ...saturation(
      ["distance"],
      first((before, now) => relative(Math.abs(now[0] - before), before)),
    ),
    settings: usual,
    held: "growth rate |δᵣ − δᵣ₋₁| / δᵣ₋₁",
    log: true,
  },
  "growth-authors": { ...growthAuthors, settings: usual, held: "signed growth rate (δᵣ − δᵣ₋₁) / δᵣ₋₁", log: true },
  "val-loss": { ...plateau("val_loss", false), settings: usual, held: "fall of the validation loss below its best" },
  "val-accuracy": {
    ...plateau("val_accuracy", true),
    settings: usual,
    held: "rise of the validation accuracy above its best, in points",
  },
  difference: {
    ...saturation(
      ["distance"],
      first((before, now) => now[0] - before),
      (value, threshold) => value <= threshold,
    ),
    settings: usual,
    held: "change of the distance δᵣ − δᵣ₋₁",
  },
  "relative-update": {
    ...saturation(
      ["distance", "update_norm"],
      first((before, now) => relative(now[1], before)),
    ),
    settings: usual,
    held: "relative update ‖uᵣ‖ / δᵣ₋₁",
    log: true,
  },
  "weight-diff": {
    ...saturation(["update_norm", "parameter_norm"], (before, now) => now[0] / atLeastOne(now[1])),
    settings: { threshold: 1e-4, patience: 1 },
    held: "update ‖uᵣ‖ / max(‖θᵣ‖, 1)",
    log: true,
  },
  wandering: {
    ...wandering,
    settings: { threshold: 0.5, patience: 15 },
    held: "distance / random walk of the same updates",
    log: true,
  },
  forward: {
    ...saturation(["distance", "update_norm", "alignment"], forwardGrowth, undefined, wayForward, 1),
    settings: { threshold: 0.005, patience: 5 },
    held: "growth of the way forward fᵣ / Fᵣ",
    log: true,
  },
  budget: { ...budget, settings: { rounds: 500 }, held: "" },
};

/**
 * Where a rule stops a run: {stop, index, reason}, stop null if never; {problem} if it cannot judge it.
 * With `whole` it goes on after the stop and adds what it held against the threshold and its streak, round by round.
 */
function judge(run, name, settings, whole = false) {
  const rule = RULES[name];
  const missing = rule.reads.find((column) => !run.has(column));
  if (missing) return { stop: null, problem: `${missing} is not recorded` };
  const columns = rule.reads.map((column) => run.column(column));
  const verdict = { stop: null, index: null, reason: "", held: [], streak: [] };
  const state = rule.begin();
  try {
    for (let i = 0; i < run.rounds.length; i++) {
      const row = columns.map((column) => column.value(i));
      const status = rule.step(state, row, run.rounds[i], settings);
      if (whole) {
        verdict.held.push(status.held);
        verdict.streak.push(status.streak);
      }
      if (status.stop && verdict.stop === null) {
        Object.assign(verdict, { stop: run.rounds[i], index: i, reason: status.reason });
        if (!whole) break;
      }
    }
  } catch (error) {
    if (!(error instanceof Unjudged)) throw error;
    if (verdict.stop === null) return { stop: null, problem: error.message };
  }
  return verdict;
}
