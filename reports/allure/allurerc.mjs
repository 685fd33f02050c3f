// How Allure builds the site of a run. `conformance report` calls it with these in the environment:
//   CONFORMANCE_RESULTS     the results' directory; its categories.json is used as it is
//   CONFORMANCE_CANDIDATES  JSON list of the candidates' names: each is an environment of the report
//   CONFORMANCE_HISTORY     optional: a JSONL file that keeps the trend over runs
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const results = process.env.CONFORMANCE_RESULTS ?? "";
const categories = join(results, "categories.json");
const candidates = JSON.parse(process.env.CONFORMANCE_CANDIDATES ?? "[]");

export default {
  name: "Mail transport conformance",
  ...(process.env.CONFORMANCE_HISTORY ? { historyPath: process.env.CONFORMANCE_HISTORY, appendHistory: true } : {}),
  ...(existsSync(categories) ? { categories: JSON.parse(readFileSync(categories, "utf-8")) } : {}),
  environments: Object.fromEntries(
    candidates.map((name, number) => [
      `candidate-${number + 1}`,
      { name, matcher: ({ labels }) => labels.some((label) => label.name === "candidate" && label.value === name) },
    ]),
  ),
  plugins: {
    awesome: { options: { singleFile: true, groupBy: ["epic", "feature", "story"], theme: "auto" } },
  },
};
