"use strict";
// The triggers of fedhalt/rules. A run brings the signal of every rule along, so no rule's arithmetic is written here;
// tests/views/test_explorer.py holds the stops against Python's.

const KNOWN = JSON.parse(document.getElementById("known").textContent);
/** By the names of the command line: settings, what is read and held, and the trigger. */
const RULES = KNOWN.rules;
/** What views say: reasons by code and rule, and the meaning of every term. */
const WORDS = KNOWN.words;

/** A record that a rule cannot judge; Python raises an error with the same meaning. */
class Unjudged extends Error {}

/** What a trigger says of a round: its streak, whether it stops, and why. */
const said = (streak, stop, reason, signal = null) => ({ streak, stop, reason: stop ? reason : "", signal });

const TRIGGERS = {
  /** Below the threshold for `patience` rounds in a row. */
  below({ inclusive }, { threshold, patience }, run, name) {
    const signals = run.signals(name);
    let [streak, still] = [0, 0];
    return (i) => {
      const signal = signals.value(i);
      const counts = signal !== null && (inclusive ? signal <= threshold : signal < threshold);
      still = counts && signal === 0 ? still + 1 : 0;
      streak = counts ? streak + 1 : 0;
      if (i === signals.diverged) return said(streak, true, "diverged", signal);
      return said(streak, streak >= patience, signals.reason(i, still >= streak), signal);
    };
  },

  /** The authors': from round 3 on; a signal of zero neither counts nor resets, nothing ever diverges. */
  authors(rule, { threshold, patience }, run, name) {
    const signals = run.signals(name);
    let streak = 0;
    return (i, r) => {
      const signal = signals.value(i);
      if (signal !== null && r >= 3 && signal !== 0) streak = signal < threshold ? streak + 1 : 0;
      return said(streak, streak >= patience, signals.reason(i, false), signal);
    };
  },

  /** `patience` evaluations in a row without an improvement of more than the threshold. */
  plateau({ higher, reads }, { threshold, patience }, run) {
    if (!run.has(reads[0])) throw new Unjudged(`${reads[0]} is not recorded`);
    const column = run.column(reads[0]);
    let [best, streak] = [higher ? 0 : null, 0];
    return (i) => {
      const value = column.value(i);
      if (value === null) return said(streak, false, "");
      const scaled = higher ? value * 100 : value; // accuracies are held against percentage points
      const gain = higher ? scaled - best : best - scaled;
      const better = higher ? scaled > best + threshold : scaled < best - threshold;
      const first = best === null;
      const improved = first ? scaled === scaled : better;
      streak = improved ? 0 : streak + 1;
      if (improved) best = scaled;
      return said(streak, streak >= patience, "plateau", first ? null : gain);
    };
  },

  budget:
    (rule, { rounds }) =>
    (i, r) =>
      said(r, r >= rounds, "budget"),
};

/**
 * Where a rule stops a run: {stop, index, reason}, stop null if never; {problem} if it cannot judge it.
 * With `whole` it goes on after the stop and adds the signal and the streak, round by round.
 */
function judge(run, name, settings, whole = false) {
  const verdict = { rule: name, stop: null, index: null, reason: "", held: [], streak: [] };
  try {
    const step = TRIGGERS[RULES[name].trigger](RULES[name], settings, run, name);
    for (let i = 0; i < run.rounds.length; i++) {
      const status = step(i, run.rounds[i]);
      if (whole) {
        verdict.held.push(status.signal);
        verdict.streak.push(status.streak);
      }
      if (status.stop && verdict.stop === null) {
        Object.assign(verdict, { stop: run.rounds[i], index: i, reason: status.reason });
        if (!whole) break;
      }
    }
  } catch (error) {
    if (!(error instanceof Unjudged)) throw error;
    if (verdict.stop === null) return { rule: name, stop: null, problem: error.message };
  }
  return verdict;
}
