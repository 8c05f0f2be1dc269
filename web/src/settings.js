// What the user chose: kept in the browser, checked when it is read back. The API key lives as long
// as the window.
import { create_kept_store, create_store } from './store.js';

export const DEFAULT_SYSTEM = '你是一个温暖、简洁、有同理心的助手。';

export const DEFAULTS = {
  stream: true,
  max_tokens: 256,
  temperature: 0,
  repetition_penalty: 1.05,
  system: DEFAULT_SYSTEM,
};

export const LIMITS = {
  max_tokens: { min: 1, max: 4096, step: 1 },
  temperature: { min: 0, max: 2, step: 0.1 },
  repetition_penalty: { min: 1, max: 2, step: 0.05 },
};

/** The number within its limits, or the default where it is none. */
export function clamp_setting(name, value) {
  const { min, max, step } = LIMITS[name];
  const number = typeof value === 'number' ? value : parseFloat(value);
  if (!Number.isFinite(number)) return DEFAULTS[name];
  const inside = Math.min(max, Math.max(min, number));
  return step === 1 ? Math.round(inside) : Math.round(inside * 100) / 100;
}

export function check_settings(kept) {
  const value = kept !== null && typeof kept === 'object' ? kept : {};
  return {
    stream: typeof value.stream === 'boolean' ? value.stream : DEFAULTS.stream,
    max_tokens: clamp_setting('max_tokens', value.max_tokens),
    temperature: clamp_setting('temperature', value.temperature),
    repetition_penalty: clamp_setting('repetition_penalty', value.repetition_penalty),
    system: typeof value.system === 'string' ? value.system : DEFAULTS.system,
  };
}

export const settings = create_kept_store('munia.settings', check_settings);
export const api_key = create_store('');
