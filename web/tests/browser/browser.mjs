// Debian's Chromium for the tests of the page. MUNIA_CHROMIUM names another one. Every page records
// what must not happen: an error, a broken rule of the policy, a request to another host.
import { chromium } from 'playwright-core';

const CHROMIUM = process.env.MUNIA_CHROMIUM ?? '/usr/bin/chromium';

export const launch = () => chromium.launch({ executablePath: CHROMIUM });

/** A page at `address` in a fresh profile: {page, context, bad}; bad lists what went wrong. */
export async function open_page(browser, address, options = {}) {
  const context = await browser.newContext({ locale: 'en-US', viewport: { width: 1280, height: 800 },
    acceptDownloads: true, ...options });
  const page = await context.newPage();
  const bad = [];
  const origin = new URL(address).origin;
  page.on('pageerror', (error) => bad.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // A refused request is told to the user by the page; the browser logs it too.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
      bad.push(`console: ${message.text()}`);
    }
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.origin !== origin && url.protocol !== 'blob:') bad.push(`request: ${request.url()}`);
  });
  await page.goto(address);
  await page.waitForSelector('.composer');
  return { page, context, bad };
}

/** Sends a message, once the turn before is over, and waits for the reply to begin; its message. */
export async function send(page, text) {
  await turn_over(page);
  const replies = page.locator('.message.munia');
  const n = await replies.count();
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.keyboard.press('Enter');
  const reply = replies.nth(n);
  await reply.waitFor();
  return reply;
}

/** Sends a message and waits until the turn is over; the last reply's text. */
export async function chat_once(page, text) {
  await send(page, text);
  await turn_over(page);
  return page.locator('.message.munia .markdown').last().innerText();
}

/** The page notes from now on how the text of a running reply grows: seen from here, in polls, a busy
 *  machine might show the end only. */
export const note_growth = (page) => page.evaluate(() => {
  globalThis.lengths = new Set();
  new MutationObserver(() => {
    const text = document.querySelector('.message.munia[aria-busy=true] .markdown')?.textContent;
    if (text) globalThis.lengths.add(text.length);
  }).observe(document.body, { childList: true, characterData: true, subtree: true });
});

/** In how many lengths the text of running replies was shown since note_growth. */
export const growth_steps = (page) => page.evaluate(() => globalThis.lengths.size);

/** Until Send is back in the place of Stop. */
export const turn_over = (page) =>
  page.getByRole('button', { name: 'Send' }).waitFor({ timeout: 120_000 });
