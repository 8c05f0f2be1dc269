// Small observable values, and what the browser keeps. Every conversation has a key of its own in
// localStorage, so that two windows do not overwrite each other's.
import { useEffect, useState } from 'preact/hooks';

/** A value that tells its listeners when it is replaced. */
export function create_store(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      value = typeof next === 'function' ? next(value) : next;
      for (const listener of [...listeners]) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function use_store(store) {
  const [value, set_value] = useState(store.get());
  useEffect(() => {
    set_value(store.get());
    return store.subscribe(set_value);
  }, [store]);
  return value;
}

/** localStorage's interface, or memory where the browser refuses it (private windows, blocked data). */
export function open_storage() {
  try {
    const storage = globalThis.localStorage;
    storage.setItem('munia.probe', '1');
    storage.removeItem('munia.probe');
    return storage;
  } catch {
    const map = new Map();
    return {
      get length() { return map.size; },
      key: (i) => [...map.keys()][i] ?? null,
      getItem: (key) => map.get(key) ?? null,
      setItem: (key, value) => void map.set(key, String(value)),
      removeItem: (key) => void map.delete(key),
    };
  }
}

export const storage = open_storage();

export function read_json(key, fallback) {
  try {
    return JSON.parse(storage.getItem(key)) ?? fallback;
  } catch {
    return fallback;
  }
}

/** False where the browser's storage is full. */
export function write_json(key, value) {
  try {
    storage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** A store whose value survives a reload; `check` repairs what was read. */
export function create_kept_store(key, check) {
  const store = create_store(check(read_json(key, null)));
  store.subscribe((value) => write_json(key, value));
  return store;
}
