// @ts-check
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  { ignores: ["built/", "dist/"] },
  tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { project: "./tsconfig.test.json", tsconfigRootDir: import.meta.dirname } },
  },
  { files: ["eslint.config.js"], extends: [tseslint.configs.disableTypeChecked] },
  {
    files: ["test/**"],
    // `describe` and `test` of node:test give promises that the runner waits for.
    rules: { "@typescript-eslint/no-floating-promises": "off" },
  },
);
