import { FirstRun } from '../inbox/FirstRun';
import { InboxRow } from '../inbox/InboxRow';
import { nest } from '../inbox/model';
import s from './Gallery.module.css';
import { Part } from './Part';
import { rows, sampleRow, words } from './samples';

const nothing = () => {};

export function Work() {
  return (
    <>
      <Part name="Rows of the inbox">
        <ul className={s.rows}>
          {nest(rows).map(({ row, child }) => (
            <InboxRow
              key={row.session.id}
              row={row}
              child={child}
              own={row.session.owner.handle === 'alice'}
              onRead={nothing}
            />
          ))}
        </ul>
      </Part>
      <Part name="A row in every state">
        <ul className={s.rows}>
          {words.map((word) => (
            <InboxRow
              key={word}
              row={sampleRow(`ses_${word}`, word, 'Take the discount off every piece')}
              child={false}
              own
              onRead={nothing}
            />
          ))}
        </ul>
      </Part>
      <Part name="First run, no environment">
        <div className={s.full}>
          <FirstRun environments={[]} onPick={nothing} />
        </div>
      </Part>
    </>
  );
}
