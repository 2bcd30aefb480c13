"use strict";
// What a word means: on hover, on focus and on touch, with a way to the list of all words at the end of the page.

const tip = html("span", { id: "tip", role: "tooltip", popover: "manual" });
let told = null; // the element whose word is being explained

// A rule that was added without an explanation says what it compares.
for (const [rule, { holds }] of Object.entries(RULES))
  WORDS.terms[`rule ${rule}`] ??= { title: rule, text: `Compares ${holds} with its threshold.`, page: "" };

const meaningOf = (name) => WORDS.terms[name];

/** A word that explains itself. */
const explained = (name, label = null) =>
  html("button", { type: "button", class: "term", "data-term": name }, label ?? meaningOf(name).title);

function showTip(node) {
  if (node === told || !node.isConnected) return; // a heading that was pressed is made anew
  hideTip();
  const meaning = meaningOf(node.dataset.term);
  const more = html("a", { href: "#words" }, "All words");
  more.addEventListener("click", (event) => {
    event.preventDefault(); // the address keeps the settings
    openWord(node.dataset.term);
  });
  tip.replaceChildren(html("b", {}, meaning.title), ` ${meaning.text} `, more);
  told = node;
  node.setAttribute("aria-describedby", "tip");
  node.after(tip); // so that the next press of Tab reaches it
  tip.showPopover();
  placeTip();
}

/** Below its word, or above where there is no room. */
function placeTip() {
  const [box, own] = [told.getBoundingClientRect(), tip.getBoundingClientRect()];
  const above = box.bottom + own.height + 12 > innerHeight && box.top > own.height + 12;
  tip.style.left = `${Math.max(8, Math.min(box.left, document.documentElement.clientWidth - own.width - 8))}px`;
  tip.style.top = `${above ? box.top - own.height - 4 : box.bottom + 4}px`;
}

function hideTip() {
  told?.removeAttribute("aria-describedby");
  told = null;
  if (tip.matches(":popover-open")) tip.hidePopover();
}

/** The word in the list at the end of the page. */
function openWord(name) {
  hideTip();
  const entry = [...at("words").querySelectorAll("dt")].find((node) => node.dataset.word === name);
  at("words").open = true;
  entry.scrollIntoView({ block: "center" });
  entry.focus({ preventScroll: true });
}

/** The pointer may pass from a word to its explanation; Escape ends it. */
function buildTips() {
  const within = (event) => event.target.closest?.("#tip") ?? event.target.closest?.("[data-term]");
  for (const kind of ["pointerover", "focusin", "click"])
    document.addEventListener(kind, (event) => {
      const node = within(event);
      if (node && node !== tip) showTip(node);
      else if (!node && !(kind === "pointerover" && document.activeElement === told)) hideTip();
    });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  const read = () => told.matches(":hover, :focus") || tip.matches(":hover, :focus-within");
  const followed = () => (read() ? placeTip() : hideTip());
  addEventListener("scroll", () => told && followed(), { passive: true, capture: true });
}

/** Every word of the page, and where the documentation says more. */
function buildWords() {
  at("words-list").replaceChildren(
    ...Object.entries(WORDS.terms).flatMap(([name, { title, text: meaning, page }]) => [
      html("dt", { "data-word": name, tabindex: "-1" }, title),
      html("dd", {}, meaning, page ? html("span", { class: "more" }, ` docs/${page}`) : null),
    ]),
  );
}
