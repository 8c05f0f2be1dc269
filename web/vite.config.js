// Builds the page to dist/: one script, one style sheet, the bird. Beside each file stands its gzip,
// which the program embeds (embed.cmake). Nothing is inlined: the page's policy forbids it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { defineConfig } from 'vite';

const compress = {
  name: 'munia-compress',
  apply: 'build',
  closeBundle() {
    const visit = (directory) => {
      for (const entry of readdirSync(directory, { withFileTypes: true })) {
        const path = join(directory, entry.name);
        if (entry.isDirectory()) visit(path);
        else if (!path.endsWith('.gz')) {
          writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
        }
      }
    };
    visit('dist');
  },
};

export default defineConfig({
  base: './', // works below any path of a reverse proxy
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  build: {
    target: ['chrome97', 'firefox104', 'safari15.4'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  plugins: [compress],
  server: { proxy: Object.fromEntries(
    ['/predict', '/classify', '/stats', '/v1'].map((path) => [path, 'http://127.0.0.1:8080'])) },
});
