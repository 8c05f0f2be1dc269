// Language of the page: the browser's at first, then what the user switched to.
import { create_kept_store, use_store } from './store.js';
import { STRINGS } from './strings.js';

/** 'zh' or 'en' for the languages that a browser lists, best first. */
export function choose_language(languages) {
  for (const tag of languages ?? []) {
    const primary = String(tag).toLowerCase().split('-')[0];
    if (primary in STRINGS) return primary;
  }
  return 'en';
}

export const language = create_kept_store('munia.language', (kept) =>
  kept in STRINGS ? kept : choose_language(globalThis.navigator?.languages));

export function translate(lang, key, values = {}) {
  const sentence = STRINGS[lang][key];
  if (sentence === undefined) throw new Error(`no sentence ${key}`);
  return sentence.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ''));
}

/** t(key, values) in the present language; t.lang tells which. */
export function use_t() {
  const lang = use_store(language);
  const t = (key, values) => translate(lang, key, values);
  t.lang = lang;
  return t;
}

/** One clear sentence for whatever was thrown. */
export function describe_error(t, error) {
  const seconds = error?.retry_after_s;
  switch (error?.kind) {
    case 'offline': case 'cut': case 'key': case 'context':
      return t(`error_${error.kind}`);
    case 'busy':
      return seconds > 0 ? t('error_busy', { s: Math.ceil(seconds) }) : t('error_busy_soon');
    case 'unavailable': case 'refused':
      return t(`error_${error.kind}`, { message: error.message });
    default:
      return t('error_failed', { message: error?.message ?? String(error) });
  }
}

/** What a label of the built-in tasks means in the other language, or '' where that is not needed. */
export function label_gloss(lang, kind, label) {
  const names = lang === 'zh'
    ? { positive: '正面', neutral: '中性', negative: '负面' }
    : { positive: 'positive', neutral: 'neutral', negative: 'negative' };
  const name = names[kind];
  const is_chinese = /[\u3400-\u9fff]/.test(label);
  return name && is_chinese !== (lang === 'zh') ? name : '';
}

/** "1 h 02 min", "3 min 05 s", "8 s". */
export function format_duration(lang, seconds) {
  if (!Number.isFinite(seconds)) return '–';
  const whole = Math.max(0, Math.round(seconds));
  const d = Math.floor(whole / 86400);
  const h = Math.floor(whole / 3600) % 24;
  const m = Math.floor(whole / 60) % 60;
  const s = whole % 60;
  const unit = lang === 'zh'
    ? { d: ' 天', h: ' 小时', m: ' 分', s: ' 秒' } : { d: ' d', h: ' h', m: ' min', s: ' s' };
  if (d > 0) return `${d}${unit.d} ${h}${unit.h}`;
  if (h > 0) return `${h}${unit.h} ${m}${unit.m}`;
  if (m > 0) return `${m}${unit.m} ${s}${unit.s}`;
  return `${s}${unit.s}`;
}

export function format_bytes(bytes) {
  if (!Number.isFinite(bytes)) return '–';
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let i = 0;
  while (bytes >= 1000 && i < units.length - 1) {
    bytes /= 1000;
    i += 1;
  }
  return `${bytes >= 100 || i === 0 ? Math.round(bytes) : bytes.toFixed(bytes >= 10 ? 1 : 2)} ${units[i]}`;
}
