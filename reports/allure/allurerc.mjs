// How Allure builds the site of a run. `conformance report` calls it with these in the environment:
//   CONFORMANCE_RESULTS     the results' directory; its categories.json is used as it is
//   CONFORMANCE_CANDIDATES  JSON list of the candidates' names: each is an environment of the report
//   CONFORMANCE_HISTORY     optional: a JSONL file that keeps the trend over runs
// It writes many files; conformance/report/allure_pack.py packs them, so that the site opens without a server.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const results = process.env.CONFORMANCE_RESULTS ?? "";
const categories = join(results, "categories.json");
const candidates = JSON.parse(process.env.CONFORMANCE_CANDIDATES ?? "[]");

export default {
  name: "Mail transport conformance",
  ...(process.env.CONFORMANCE_HISTORY ? { historyPath: process.env.CONFORMANCE_HISTORY, appendHistory: true } : {}),
  ...(existsSync(categories)
    ? {
        categories: JSON.parse(readFileSync(categories, "utf-8")).map((one) => ({
          ...one,
          groupBy: [{ label: "requirement" }],
          groupByMessage: false,
        })),
      }
    : {}),
  hideLabels: ["candidate", "requirement", "framework", "language", "package", "host", "thread"],
  environments: Object.fromEntries(
    candidates.map((name, number) => [
      `candidate-${number + 1}`,
      { name, matcher: ({ labels }) => labels.some((label) => label.name === "candidate" && label.value === name) },
    ]),
  ),
  plugins: {
    awesome: { options: { singleFile: false, groupBy: ["epic", "feature", "story"], theme: "auto" } },
  },
};
