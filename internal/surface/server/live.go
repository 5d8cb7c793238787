package server

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Bounds of streams and of presence.
const (
	maxStreams    = 1000
	maxOwnStreams = 32  // of one person
	maxNotices    = 256 // that wait for one stream; then it is cut
	presenceLife  = 45 * time.Second
	maxPresent    = 64 // tabs at one session
	maxPlaces     = 5000
)

// live is what browsers that are connected share: their streams, and who looks
// at what. It is in memory: who is connected is over with the process.
type live struct {
	mu      sync.Mutex
	streams map[string]*browserStream
	places  map[core.SessionID]map[place]present
}

type place struct{ person, client string }

type present struct {
	user   core.Author
	typing bool
	until  time.Time
}

// notice is something for a stream that is in no log.
type notice struct {
	kind string
	data any
}

// enter adds a stream under a new name.
func (l *live) enter(b *browserStream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := 0
	for _, other := range l.streams {
		if other.by.Handle == b.by.Handle {
			own++
		}
	}
	if own >= maxOwnStreams || len(l.streams) >= maxStreams {
		return core.E("server.stream", core.Exhausted, nil, "%s has %d streams, and there are %d", b.by.Handle, own, len(l.streams)).
			WithHint("close some pages; one stream is enough for a browser")
	}
	if l.streams == nil {
		l.streams = map[string]*browserStream{}
	}
	b.id = "str_" + strings.ToLower(rand.Text())
	l.streams[b.id] = b
	return nil
}

func (l *live) leave(b *browserStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, b.id)
}

// find is a stream of a person, or nil.
func (l *live) find(id, person string) *browserStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.streams[id]; b != nil && b.by.Handle == person {
		return b
	}
	return nil
}

// notify gives a notice to streams; one that has too many is cut, and never
// waited for.
func (l *live) notify(n notice, to func(*browserStream) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.streams {
		if !to(b) {
			continue
		}
		select {
		case b.notices <- n:
		default:
			b.cut()
		}
	}
}

// read tells the browsers of a person how far they have read.
func (l *live) read(person string, r core.Read) {
	l.notify(notice{"read", r}, func(b *browserStream) bool { return b.by.Handle == person })
}

// here notes that somebody looks at a session, and says whether that is news.
func (l *live) here(id core.SessionID, by core.Author, h api.Here) (news bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.looking(id)
	at := place{by.Handle, h.Client}
	tabs := l.places[id]
	if h.Left {
		delete(tabs, at)
	} else {
		if tabs == nil {
			if len(l.places) >= maxPlaces {
				l.forget()
			}
			if len(l.places) >= maxPlaces {
				return false, core.E("server.presence", core.Exhausted, nil, "somebody looks at %d sessions already", maxPlaces)
			}
			if l.places == nil {
				l.places = map[core.SessionID]map[place]present{}
			}
			tabs = map[place]present{}
			l.places[id] = tabs
		}
		if _, known := tabs[at]; !known && len(tabs) >= maxPresent {
			return false, core.E("server.presence", core.Exhausted, nil, "%d pages show session %s already", len(tabs), id)
		}
		tabs[at] = present{user: by, typing: h.Typing, until: time.Now().Add(presenceLife)}
	}
	return !slices.Equal(before, l.looking(id)), nil
}

// forget drops places where nobody is any more.
func (l *live) forget() {
	for id := range l.places {
		l.looking(id)
	}
}

// looking lists who looks at a session, by handle; mu is held.
func (l *live) looking(id core.SessionID) []api.Present {
	out := []api.Present{}
	tabs := l.places[id]
	for at, p := range tabs {
		if !time.Now().Before(p.until) {
			delete(tabs, at)
			continue
		}
		i := slices.IndexFunc(out, func(v api.Present) bool { return v.User.Handle == p.user.Handle })
		if i < 0 {
			out = append(out, api.Present{User: p.user, Typing: p.typing})
			continue
		}
		out[i].Typing = out[i].Typing || p.typing
	}
	if len(tabs) == 0 {
		delete(l.places, id)
	}
	slices.SortFunc(out, func(a, b api.Present) int { return strings.Compare(a.User.Handle, b.User.Handle) })
	return out
}

// at is looking for those who do not hold mu.
func (l *live) at(id core.SessionID) []api.Present {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looking(id)
}
