import { plain } from '../session/text';
import { Badge } from '../ui/Badge';
import s from './change.module.css';
import { type ChangePageData, fileOf, type PagePicture } from './model';
import { w } from './words';

/** Pages of the product before and after, with what differs. */
export function Pictures({ page }: { page: ChangePageData }) {
  const evidence = page.verdict.evidence;
  if (page.pictures.length === 0 || !evidence) return null;
  return (
    <section aria-label={w.pictures}>
      <h2>{w.pictures}</h2>
      {page.pictures.map((p) => (
        <Picture key={`${p.name} ${p.viewport}`} of={p} evidence={evidence} />
      ))}
    </section>
  );
}

function Picture({ of, evidence }: { of: PagePicture; evidence: string }) {
  const share = of.difference?.share ?? 0;
  const images = [
    { title: w.before, image: of.before },
    { title: w.after, image: of.after },
    {
      title: w.difference,
      image: of.difference?.digest ? { digest: of.difference.digest, width: 0, height: 0 } : undefined,
    },
  ];
  return (
    <div className={s.picture}>
      <p className={s.facts}>
        <strong>{plain(of.name)}</strong>
        {of.viewport && <span>{plain(of.viewport)}</span>}
        <Badge tone={of.status === 'changed' ? 'ask' : 'idle'}>{w.pictureStates[of.status] ?? plain(of.status)}</Badge>
        {share > 0 && <span>{w.differs(share)}</span>}
        {of.why && <span>{plain(of.why)}</span>}
      </p>
      <div className={s.images}>
        {images.map(
          ({ title, image }) =>
            image && (
              <figure key={title}>
                <figcaption>{title}</figcaption>
                <a href={fileOf(evidence, image.digest)} target="_blank" rel="noopener">
                  <img
                    src={fileOf(evidence, image.digest)}
                    alt={`${plain(of.name)}: ${title}`}
                    loading="lazy"
                    {...(image.width > 0 && { width: image.width, height: image.height })}
                  />
                </a>
              </figure>
            ),
        )}
      </div>
    </div>
  );
}
