"use strict";
// What the model is doing, as fedhalt/rules/motion.py computes it; tests/test_explorer.py holds the two together.

/** The boundaries lie in the middle between 0, 1/2, 1 and 2. */
function wordOf(exponent, distance, squares) {
  if (exponent > 1.5) return "diverging";
  if (exponent >= 0.75) return "still moving";
  if (exponent >= 0.25) return "diffusing";
  const undone = squares !== null && distance < 0.5 * Math.sqrt(squares); // the updates cancel
  return distance === 0 || undone ? "going nowhere" : "saturated";
}

/** ln(now / before), 0 for 0 after 0; null where no number says it, as from 0 to anything else. */
function logChange(before, now) {
  if (now === before) return 0;
  const ratio = before === 0 ? 0 : now / before;
  return ratio > 0 && ratio < Infinity ? Math.log(ratio) : null;
}

/** The local exponent and the word for it, round by round: the same under every rule. */
function motionOf(run) {
  const size = (name, i) => {
    const value = run.has(name) && i < run.column(name).bad ? run.column(name).value(i) : null;
    return value < 0 ? null : value;
  };
  let [last, before, num, den, squares] = [0, null, 0, 0, 0];
  return run.rounds.map((r, i) => {
    const distance = size("distance", i);
    if (distance === null) return { exponent: null, motion: "" };
    const update = squares === null ? null : size("update_norm", i);
    squares = update === null ? null : squares + update * update;
    const change = before === null || !Number.isFinite(distance) ? null : logChange(before, distance);
    const weight = (last / r) * (last / r) * (last / r);
    num = change === null ? 0 : weight * num + change;
    den = change === null ? 0 : weight * den + Math.log(r / last);
    last = r;
    before = Number.isFinite(distance) ? distance : null;
    if (before === null) return { exponent: null, motion: "diverging" };
    if (change === null) return { exponent: null, motion: "" };
    return { exponent: num / den, motion: wordOf(num / den, distance, squares) };
  });
}

/** Whether a stop came by the clock: the growth rate a / r fell below the threshold while the model still moved. */
const byTheClock = ({ reason, motion }) => reason === "saturated" && ["still moving", "diffusing"].includes(motion);

/** Exponent and word; beside the reason of a stop also whether the clock made it. */
function toldText(one) {
  if (one.exponent === null) return one.motion || "–";
  const exponent = one.exponent.toFixed(2).replace("-0.00", "0.00");
  return `${exponent}, ${one.motion}${byTheClock(one) ? ": the clock, not the model" : ""}`;
}

/** Why a run ended, or what it is doing where it did not. */
function whyText(one) {
  if (one.exponent === null) return one.reason;
  return `${one.reason ? `${one.reason}; ` : ""}exponent ${toldText(one)}`;
}

const exponentChart = (run, width, marks) =>
  lineChart({
    xs: run.rounds,
    width,
    title: "Local exponent: 0 saturated, ½ random walk, 1 straight drift",
    floor: 0,
    marks,
    series: [{ label: "exponent", ys: run.moved.map((one) => one.exponent), colour: "k3", bold: true }],
  });
