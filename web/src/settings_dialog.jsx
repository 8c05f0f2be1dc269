// The settings of the chat, changed as they are typed; numbers are put within their limits when the
// field is left.
import { useState } from 'preact/hooks';
import { Dialog } from './dialog.jsx';
import { use_t } from './i18n.js';
import { api_key, clamp_setting, DEFAULTS, LIMITS, settings } from './settings.js';
import { use_store } from './store.js';

export function NumberField({ name, id }) {
  const value = use_store(settings)[name];
  const [typed, set_typed] = useState(null); // what stands in the field while it is edited
  const change = (text) => {
    set_typed(text);
    const number = parseFloat(text);
    if (clamp_setting(name, number) === number) settings.set((old) => ({ ...old, [name]: number }));
  };
  const leave = () => {
    if (typed !== null) settings.set((old) => ({ ...old, [name]: clamp_setting(name, typed) }));
    set_typed(null);
  };
  return (
    <input id={id} type="number" inputMode="decimal" {...LIMITS[name]} value={typed ?? value}
      onInput={(event) => change(event.currentTarget.value)} onBlur={leave} />
  );
}

export function SettingsDialog({ on_close }) {
  const t = use_t();
  const value = use_store(settings);
  const key = use_store(api_key);
  const set = (change) => settings.set((old) => ({ ...old, ...change }));
  return (
    <Dialog title={t('settings')} on_close={on_close}>
      <div class="field">
        <label for="set-system">{t('settings_system')}</label>
        <textarea id="set-system" rows="3" value={value.system} aria-describedby="set-system-hint"
          onInput={(event) => set({ system: event.currentTarget.value })} />
        <p class="hint" id="set-system-hint">{t('settings_system_hint')}</p>
      </div>
      <div class="field-row">
        <div class="field">
          <label for="set-max">{t('settings_max_tokens')}</label>
          <NumberField id="set-max" name="max_tokens" />
        </div>
        <div class="field">
          <label for="set-temperature">{t('settings_temperature')}</label>
          <NumberField id="set-temperature" name="temperature" />
          <p class="hint">{t('settings_temperature_hint')}</p>
        </div>
        <div class="field">
          <label for="set-penalty">{t('settings_penalty')}</label>
          <NumberField id="set-penalty" name="repetition_penalty" />
        </div>
      </div>
      <label class="switch">
        <input type="checkbox" role="switch" checked={value.stream}
          onChange={(event) => set({ stream: event.currentTarget.checked })} />
        <span>{t('settings_stream')}</span>
      </label>
      <div class="field">
        <label for="set-key">{t('settings_key')}</label>
        <input id="set-key" type="password" autocomplete="off" value={key} aria-describedby="set-key-hint"
          onInput={(event) => api_key.set(event.currentTarget.value.trim())} />
        <p class="hint" id="set-key-hint">{t('settings_key_hint')}</p>
      </div>
      <div class="actions">
        <button type="button" onClick={() => settings.set({ ...DEFAULTS })}>{t('settings_reset')}</button>
        <button type="button" class="primary" onClick={on_close}>{t('done')}</button>
      </div>
    </Dialog>
  );
}
