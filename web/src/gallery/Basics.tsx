import { Archive, Play, Square, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { Problem } from '../api/problem';
import { Avatar, Avatars } from '../ui/Avatar';
import { Badge } from '../ui/Badge';
import { Button, IconButton } from '../ui/Button';
import { Choice } from '../ui/Choice';
import { Copy } from '../ui/Copy';
import { Disclosure } from '../ui/Disclosure';
import { EmptyState } from '../ui/EmptyState';
import { ErrorState } from '../ui/ErrorState';
import { Input, Select, TextArea } from '../ui/Field';
import { Key } from '../ui/Key';
import { Skeleton } from '../ui/Skeleton';
import { Splitter } from '../ui/Splitter';
import { StateWord } from '../ui/StateWord';
import { Pager, Table } from '../ui/Table';
import { Bytes, Duration, Money, RelativeTime } from '../ui/Time';
import { Checkbox, Switch } from '../ui/Toggle';
import s from './Gallery.module.css';
import { Part } from './Part';
import { people, viewOf, words } from './samples';

const fault = new Problem('unavailable', 'The snapshot snp_7 could not be read: disk error at layer 3.', {
  status: 503,
  hint: 'drydock doctor says what the disk lacks',
  id: 'f-1b2c',
});
const options = [
  { value: 'a', label: 'shop' },
  { value: 'b', label: 'an environment with quite a long name' },
];

export function Basics() {
  const [on, setOn] = useState(true);
  const [choice, setChoice] = useState<'a' | 'b' | 'c'>('a');
  return (
    <>
      <Part name="Button">
        <Button>Plain</Button>
        <Button kind="primary">Primary</Button>
        <Button kind="danger" icon={Trash2}>
          Danger
        </Button>
        <Button kind="quiet">Quiet</Button>
        <Button icon={Play}>With icon</Button>
        <Button size="small">Small</Button>
        <Button busy>Busy</Button>
        <Button kind="primary" blocked="Not connected">
          Blocked
        </Button>
        <Button disabled>Disabled</Button>
      </Part>
      <Part name="IconButton">
        <IconButton icon={Archive} label="Archive" />
        <IconButton icon={Square} label="Stop" kind="plain" />
        <IconButton icon={Archive} label="Archive, pressed" pressed />
        <IconButton icon={Archive} label="Archive, disabled" disabled />
      </Part>
      <Part name="Link">
        <a href="/gallery">A link in a sentence</a>
      </Part>
      <Part name="StateWord">
        {words.map((word) => (
          <StateWord key={word} view={viewOf(word, word === 'queued' ? { position: 3 } : {})} />
        ))}
      </Part>
      <Part name="StateWord, tinted">
        {words.map((word) => (
          <StateWord key={word} view={viewOf(word)} tint />
        ))}
      </Part>
      <Part name="Badge">
        <Badge>idle</Badge>
        <Badge tone="run">run</Badge>
        <Badge tone="ask">ask</Badge>
        <Badge tone="ok">ok</Badge>
        <Badge tone="bad">bad</Badge>
        <Badge tone="unp">unproven</Badge>
      </Part>
      <Part name="Field">
        <div className={s.field}>
          <Input label="Name" help="What people call it" />
        </div>
        <div className={s.field}>
          <Input label="Budget" defaultValue="five" error="Enter a sum like 5 or 0.50." />
        </div>
        <div className={s.field}>
          <Input label="Disabled" disabled defaultValue="as it is" />
        </div>
        <div className={s.field}>
          <Input label="Placeholder" placeholder="main" />
        </div>
        <div className={s.field}>
          <TextArea label="Reason" help="Everybody sees it" />
        </div>
        <div className={s.field}>
          <Select label="Environment" options={options} />
        </div>
        <div className={s.field}>
          <Select label="Environment, wrong" options={options} error="Choose one." />
        </div>
      </Part>
      <Part name="Checkbox, Switch, Choice">
        <Checkbox label="Checked" defaultChecked />
        <Checkbox label="With help" help="What it does" />
        <Checkbox label="Disabled" disabled />
        <Switch label="On" checked={on} onChange={setOn} />
        <Switch label="With help" help="What it does" checked={false} onChange={() => {}} />
        <Switch label="Disabled" disabled checked onChange={() => {}} />
        <Choice
          label="One of three"
          value={choice}
          options={[
            { value: 'a', label: 'First' },
            { value: 'b', label: 'Second' },
            { value: 'c', label: 'Third' },
          ]}
          onChange={setChoice}
        />
      </Part>
      <Part name="Avatar">
        {people.map((p) => (
          <Avatar key={p.handle} person={p} />
        ))}
        <Avatar person={{ handle: 'zoe' }} size="small" />
        <Avatars people={people} />
      </Part>
      <Part name="Numbers and times">
        <RelativeTime time="2026-01-02T15:04:05Z" />
        <Duration ns={252e9} />
        <Duration ns={2.4e8} />
        <Money cost={{ known_microusd: 420_000 }} />
        <Money cost={{ known_microusd: 1200, unknown: true }} />
        <Money cost={{ known_microusd: 0, unknown: true }} />
        <Bytes n={1_250_000} />
      </Part>
      <Part name="Key and Copy">
        <Key keys="Mod+k" />
        <Key keys="g i" />
        <Key keys="Shift+U" />
        <Key keys="?" />
        <Copy text="drydock doctor" label="Copy" />
      </Part>
      <Part name="EmptyState">
        <EmptyState title="Nothing is here" text="Why, and what one can do about it.">
          <Button>Do it</Button>
        </EmptyState>
      </Part>
      <Part name="ErrorState">
        <div className={s.full}>
          <ErrorState title="The inbox could not be read" problem={fault} retry={() => {}} />
        </div>
      </Part>
      <Part name="Skeleton">
        <div className={s.full}>
          <Skeleton lines={3} />
        </div>
        <div className={s.full}>
          <Skeleton lines={2} rows />
        </div>
      </Part>
      <Part name="Table and Pager">
        <div className={s.full}>
          <Table
            caption="Builds"
            rowKey={(r) => r.name}
            rows={[
              { name: 'bld_1', took: 4.2e9 },
              { name: 'bld_2', took: 252e9 },
            ]}
            columns={[
              { name: 'Build', cell: (r) => r.name },
              { name: 'Took', cell: (r) => <Duration ns={r.took} />, number: true },
            ]}
          />
          <Pager shown={2} total={1204} more busy={false} onMore={() => {}} />
          <Pager shown={2} total={1204} more busy onMore={() => {}} />
        </div>
      </Part>
      <Part name="Disclosure">
        <div className={s.full}>
          <Disclosure summary="Closed">Content</Disclosure>
          <Disclosure summary="Open" open>
            Content that is seen
          </Disclosure>
        </div>
      </Part>
      <Part name="Splitter">
        <div className={s.full}>
          <Splitter
            label="Width of the panes"
            start={<div className={s.pane}>Start</div>}
            end={<div className={s.pane}>End</div>}
          />
        </div>
      </Part>
    </>
  );
}
