// The page's files are joined into one script: what one of them declares at the top, all of them may use.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import js from "../.venv/js/node_modules/@eslint/js/src/index.js";

const folder = fileURLToPath(new URL("../fedhalt/views/page/static/", import.meta.url));
const script = readdirSync(folder).filter((name) => name.endsWith(".js"));
const joined = script.map((name) => readFileSync(folder + name, "utf8")).join("\n");
const declared = [...joined.matchAll(/^(?:async )?(function\*?|const|let|class) (\w+)/gm)];
const browser = [
  ...[
    "document",
    "window",
    "location",
    "history",
    "console",
    "innerWidth",
    "innerHeight",
    "addEventListener",
    "getComputedStyle",
  ],
  ...["fetch", "atob", "structuredClone", "matchMedia", "setTimeout", "clearTimeout", "requestAnimationFrame"],
  ...["Blob", "DecompressionStream", "Event", "Node", "Response", "URLSearchParams"],
];
const globals = Object.fromEntries([
  ...browser.map((name) => [name, "readonly"]),
  ...declared.map(([, kind, name]) => [name, kind === "let" ? "writable" : "readonly"]),
]);

export default [
  js.configs.recommended,
  {
    languageOptions: { sourceType: "script", ecmaVersion: 2023, globals },
    rules: {
      eqeqeq: "error",
      "no-nested-ternary": "error",
      "no-redeclare": ["error", { builtinGlobals: false }],
      "no-unused-vars": ["error", { vars: "local" }],
      "no-var": "error",
    },
  },
];
