import type { Environment } from '../api/types';
import { t } from '../app/strings';
import { Copy } from '../ui/Copy';
import s from './FirstRun.module.css';
import { examples, w } from './words';

function Command({ what, command }: { what: string; command: string }) {
  return (
    <li className={s.command}>
      <span className={s.what}>{what}</span>
      <span className={s.line}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long command scrolls in its box */}
        <code className={s.code} tabIndex={0}>
          {command}
        </code>
        <Copy text={command} label={t.copy} />
      </span>
    </li>
  );
}

/** What a person sees who has no session yet. */
export function FirstRun(props: { environments: Environment[]; onPick: (text: string) => void }) {
  if (props.environments.length === 0) {
    return (
      <section className={s.first}>
        <h2 className={s.title}>{w.first.noEnvironment}</h2>
        <p className={s.text}>{w.first.noEnvironmentText}</p>
        <ul className={s.list}>
          <Command what={w.first.yours} command={w.first.commands.build} />
          <Command what={w.first.demo} command={w.first.commands.demo} />
          <Command what={w.first.doctor} command={w.first.commands.doctor} />
        </ul>
      </section>
    );
  }
  const tasks = examples[props.environments.some((e) => e.name === 'shop') ? 'shop' : 'any'];
  return (
    <section className={s.first}>
      <h2 className={s.title}>{w.first.title}</h2>
      <p className={s.text}>{w.first.text}</p>
      <ul className={s.list}>
        {tasks.map((text) => (
          <li key={text}>
            <button type="button" className={s.example} onClick={() => props.onPick(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
