"use strict";
// The explorer: sliders move the stop of every run at once; tiles, a sentence, dots and a table of rules follow.

const at = (id) => document.getElementById(id);

function buildControls() {
  at("rule").append(...Object.keys(RULES).map((name) => html("option", { value: name }, name)));
  at("rule").addEventListener("change", () => {
    state.rule = at("rule").value;
    state.settings = { ...RULES[state.rule].settings };
    changed();
  });
  for (const key of Object.keys(SETTINGS)) {
    at(`${key}-slide`).addEventListener("input", (event) => {
      const value = Number(event.target.value);
      state.settings[key] = key === "threshold" ? Number((10 ** value).toPrecision(2)) : value;
      changed(event.target);
    });
    at(key).addEventListener("input", (event) => {
      const value = Number(event.target.value);
      const fits = Number.isFinite(value) && value > 0 && (key === "threshold" || Number.isInteger(value));
      event.target.setAttribute("aria-invalid", String(!fits));
      if (!fits) return;
      state.settings[key] = value;
      changed(event.target);
    });
    at(key).addEventListener("change", () => showControls()); // what is no setting goes back to the last one
  }
  at("controls").addEventListener("submit", (event) => event.preventDefault());
}

/** Puts the state into the controls, except the one under the reader's hand. */
function showControls(held = null) {
  at("rule").value = state.rule;
  for (const node of document.querySelectorAll("[data-setting]"))
    node.hidden = !(node.dataset.setting in state.settings);
  at("rounds-slide").max = Math.max(1, ...runs.map((run) => run.last));
  for (const [key, value] of Object.entries(state.settings)) {
    const slide = at(`${key}-slide`);
    if (slide !== held) slide.value = key === "threshold" ? Math.log10(value) : value;
    slide.setAttribute("aria-valuetext", String(value));
    if (at(key) !== held) {
      at(key).value = value;
      at(key).setAttribute("aria-invalid", "false");
    }
  }
}

/** What a rule does to many runs. */
function total(outcomes) {
  const judged = outcomes.filter((one) => !one.problem);
  const stopped = judged.filter((one) => one.stop !== null);
  const rounds = sum(judged.map((one) => one.used + one.saved.rounds));
  return {
    judged: judged.length,
    unjudged: outcomes.length - judged.length,
    stopped: stopped.length,
    clock: stopped.filter(byTheClock).length,
    never: judged.length - stopped.length,
    median: median(stopped.map((one) => one.stop)),
    rounds: sum(judged.map((one) => one.saved.rounds)),
    of: rounds,
    share: rounds ? sum(judged.map((one) => one.saved.rounds)) / rounds : null,
    kept: mean(judged.map((one) => one.kept)),
    regret: mean(judged.map((one) => one.regret)),
    score: mean(judged.map((one) => one.score)),
    seconds: sum(judged.map((one) => one.saved.seconds)),
    bytes: sum(judged.map((one) => one.saved.bytes)),
  };
}

function showTiles(all, outcomes) {
  const one = outcomes.length === 1 ? outcomes[0] : null;
  const stops = one
    ? one.problem
      ? "not judged"
      : one.stop === null
        ? "never"
        : `round ${one.stop}`
    : `${all.stopped} of ${all.judged}`;
  const tiles = [
    [
      one ? "Stops at" : "Runs stopped",
      stops,
      one
        ? one.problem || whyText(one) || `record of ${text.number(all.of)} rounds`
        : all.median === null
          ? ""
          : `median round ${text.number(all.median)}; ${all.clock} by the clock`,
    ],
    [
      "Never stopped",
      String(all.never),
      all.unjudged ? `${all.unjudged} cannot be judged` : all.judged === 1 ? "of 1 run" : `of ${all.judged} runs`,
    ],
    ["Rounds saved", text.percent(all.share), `${text.number(all.rounds)} of ${text.number(all.of)}`],
    [
      "Accuracy kept",
      text.percent(all.kept),
      all.regret === null
        ? "no accuracy recorded"
        : `${text.percent(all.score)}, ${text.points(all.regret)} below the best`,
    ],
    ["Time saved", text.seconds(all.seconds), all.seconds === null ? "not recorded" : "of the recorded rounds"],
    ["Traffic saved", text.bytes(all.bytes), all.bytes === null ? "not recorded" : "down and up"],
  ];
  at("tiles").replaceChildren(
    ...tiles.map(([name, value, more]) =>
      html("div", {}, html("dt", {}, name), html("dd", {}, value), html("dd", { class: "more" }, more)),
    ),
  );
}

function sentence(all, one) {
  const rule = text.settings(state.rule, state.settings);
  if (!all.judged) return `${rule}: no run here can be judged by it.`;
  const kept = all.kept === null ? "" : `, keeping ${text.percent(all.kept)} of the best accuracy`;
  const saves = `saves ${text.percent(all.share)} of the rounds${kept}`;
  const why = one && whyText(one) ? ` (${whyText(one)})` : "";
  const where = one && (one.stop === null ? `never stops${why}` : `stops at round ${one.stop} of ${all.of}${why}`);
  if (one) return `${rule}: ${where}, ${saves}.`;
  const often = all.median === null ? "" : `, in the median at round ${text.number(all.median)}`;
  const clock = all.clock ? ` ${all.clock} of the stops came by the clock, while the model still moved.` : "";
  return `${rule}: stops ${all.stopped} of ${all.judged} runs${often}, ${saves}; ${all.never} never stopped.${clock}`;
}

/** What every rule with its usual settings does to the runs that are shown; the sliders do not change that. */
let summed = new Map();
function sumUp(shown) {
  const all = (name) => total(shown.map((run) => usualOutcome(run, name, RULES[name].settings)));
  summed = new Map(Object.keys(RULES).map((name) => [name, all(name)]));
}

/** The chosen rule first, then every other. */
function showWays(shown, all) {
  const titles = [
    "rule",
    `stopped, of ${shown.length}`,
    "median stop",
    "rounds saved",
    "kept",
    "regret, points",
    "time saved",
    "traffic saved",
  ];
  const cells = (one) => [
    one.judged === shown.length ? String(one.stopped) : `${one.stopped} of ${one.judged}`,
    text.number(one.median),
    text.percent(one.share),
    text.percent(one.kept),
    text.points(one.regret, ""),
    text.seconds(one.seconds),
    text.bytes(one.bytes),
  ];
  const row = (name, settings, one, mine) =>
    html(
      "tr",
      mine ? { class: "chosen" } : {},
      html("th", { scope: "row" }, swatch(name), text.short(name, settings)),
      cells(one).map((cell) => html("td", {}, cell)),
    );
  const rows = Object.entries(RULES)
    .filter(
      ([name, { settings }]) =>
        name !== "budget" && text.settings(name, settings) !== text.settings(state.rule, state.settings),
    )
    .map(([name, { settings }]) => (summed.get(name).judged ? row(name, settings, summed.get(name), false) : null));
  at("ways").replaceChildren(
    html("caption", {}, "The chosen rule, then every other with its usual settings, on the runs shown"),
    html(
      "thead",
      {},
      html(
        "tr",
        {},
        titles.map((title) => html("th", { scope: "col" }, title)),
      ),
    ),
    html(
      "tbody",
      {},
      row(state.rule, state.settings, all, true),
      rows.filter((one) => one),
    ),
  );
}

const swatch = (name) =>
  svg(
    "svg",
    { class: "swatch", width: 26, height: 8, "aria-hidden": "true" },
    svg("path", {
      class: `line bold ${COLOURS[name].colour}`,
      d: "M0 4H26",
      "stroke-dasharray": COLOURS[name].dash || null,
    }),
  );
