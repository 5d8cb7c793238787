package preview

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
)

// Bounds of tickets and grants.
const (
	ticketLife = 30 * time.Second
	grantIdle  = 24 * time.Hour // without a request
	maxTickets = 1000
	ownTickets = 20 // of one person
	maxGrants  = 2000
	ownGrants  = 50
)

// ticket lets one browser in once, at one host.
type ticket struct {
	credential string
	user       string
	label      label // where it is good
	ports      []int
	expires    time.Time

	// Of the second and later hosts of an entry: the cookie to leave there, the
	// ports that are still to be visited, and where it ends.
	cookie string
	rest   []int
	home   int
}

// grant is what a cookie stands for.
type grant struct {
	credential string
	user       string
	session    core.SessionID
	link       string
	ports      []int
	used       time.Time
	running    map[*exchange]struct{}
	loops      map[int]loop // by port
}

// loop counts redirects of an app that lead nowhere.
type loop struct {
	count int
	since time.Time
}

func digest(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

const secretLen = 52

func newSecret() string { return strings.ToLower(rand.Text() + rand.Text()) }

// parseSecret reads only what newSecret makes.
func parseSecret(text string) (string, bool) {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	if len(text) != secretLen || strings.Trim(text, letters) != "" {
		return "", false
	}
	return text, true
}

// issue keeps a ticket; the oldest of a person who has many goes.
func (s *Service) issue(t ticket) (secret string, expires time.Time, err error) {
	secret, t.expires = newSecret(), time.Now().Add(ticketLife)
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	var oldest [32]byte
	for key, v := range s.tickets {
		if !time.Now().Before(v.expires) {
			delete(s.tickets, key)
			continue
		}
		if v.user == t.user {
			if own++; own == 1 || v.expires.Before(s.tickets[oldest].expires) {
				oldest = key
			}
		}
	}
	if own >= ownTickets {
		delete(s.tickets, oldest)
	}
	if len(s.tickets) >= maxTickets {
		return "", time.Time{}, core.E("preview.open", core.Exhausted, nil, "there are %d tickets that wait to be used", maxTickets).
			WithHint("they expire within %v", ticketLife)
	}
	s.tickets[digest(secret)] = t
	return secret, t.expires.UTC(), nil
}

// redeem uses a ticket up, wherever it is shown.
func (s *Service) redeem(secret string, at label) (ticket, bool) {
	secret, ok := parseSecret(secret)
	if !ok {
		return ticket{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := digest(secret)
	t, ok := s.tickets[key]
	delete(s.tickets, key)
	return t, ok && time.Now().Before(t.expires) && t.label == at
}

// grantOf finds the grant of a cookie that is good at a host.
func (s *Service) grantOf(secret string, at label) *grant {
	secret, ok := parseSecret(secret)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := digest(secret)
	g := s.grants[key]
	if g == nil || g.session != at.Session || !slices.Contains(g.ports, at.Port) || !sameLink(g.link, at.Link) {
		return nil
	}
	if time.Since(g.used) > grantIdle {
		delete(s.grants, key)
		return nil
	}
	g.used = time.Now()
	return g
}

func sameLink(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// linked finds the grant that a host name alone stands for.
func (s *Service) linked(at label) *grant {
	if at.Link == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if g.session == at.Session && g.link != "" && sameLink(g.link, at.Link) && slices.Contains(g.ports, at.Port) && time.Since(g.used) <= grantIdle {
			return g
		}
	}
	return nil
}

// opened finds a grant that covers two ports of a session, for preflights,
// which carry nothing that says who sends them.
func (s *Service) opened(at label, sibling int) *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if g.session == at.Session && sameLink(g.link, at.Link) && slices.Contains(g.ports, at.Port) && slices.Contains(g.ports, sibling) && time.Since(g.used) <= grantIdle {
			return g
		}
	}
	return nil
}

// enter makes a grant, or widens the one that the browser has already.
func (s *Service) enter(t ticket, have string) (secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.grants[digest(have)]; have != "" && g != nil && g.credential == t.credential && g.session == t.label.Session && g.link == t.label.Link {
		for _, p := range t.ports {
			if len(g.ports) < 4*maxPorts {
				g.ports = addPort(g.ports, p)
			}
		}
		g.used = time.Now()
		return have
	}
	own := 0
	var oldest, oldestOwn [32]byte
	for key, g := range s.grants {
		if s.grants[oldest] == nil || g.used.Before(s.grants[oldest].used) {
			oldest = key
		}
		if g.user == t.user {
			if own++; s.grants[oldestOwn] == nil || g.used.Before(s.grants[oldestOwn].used) {
				oldestOwn = key
			}
		}
	}
	if own >= ownGrants {
		s.drop(oldestOwn)
	} else if len(s.grants) >= maxGrants {
		s.drop(oldest)
	}
	secret = newSecret()
	s.grants[digest(secret)] = &grant{
		credential: t.credential, user: t.user, session: t.label.Session, link: t.label.Link, ports: slices.Clone(t.ports),
		used: time.Now(), running: map[*exchange]struct{}{}, loops: map[int]loop{},
	}
	return secret
}

// drop ends a grant and all that runs under it; mu is held.
func (s *Service) drop(key [32]byte) {
	if g := s.grants[key]; g != nil {
		delete(s.grants, key)
		for x := range g.running {
			x.cancel(errEnded)
		}
	}
}

func (s *Service) leave(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(digest(secret))
}

// still asks again who the person is and where the session is.
func (s *Service) still(ctx context.Context, g *grant) (Place, error) {
	who, err := s.deps.People.Still(ctx, g.credential)
	if err != nil {
		return Place{}, err
	}
	if who.Handle != g.user {
		return Place{}, core.E("preview.check", core.Unauthorized, nil, "the token is somebody else's now")
	}
	return s.deps.Boxes.Place(ctx, who, g.session)
}

// begin notes an exchange of a grant, so that it can be cut.
func (s *Service) begin(g *grant, x *exchange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(g.running) >= maxRunning {
		return core.E("preview.begin", core.Exhausted, nil, "this browser has %d requests and sockets open here", maxRunning)
	}
	g.running[x] = struct{}{}
	return nil
}

func (s *Service) end(g *grant, x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(g.running, x)
}

// recheck cuts what runs on under grants that are worth nothing any more, and
// forgets those.
func (s *Service) recheck(ctx context.Context) {
	type held struct {
		key [32]byte
		g   *grant
	}
	var list []held
	s.mu.Lock()
	for key, g := range s.grants {
		if time.Since(g.used) > grantIdle && len(g.running) == 0 {
			delete(s.grants, key)
		} else if len(g.running) > 0 {
			list = append(list, held{key, g})
		}
	}
	s.mu.Unlock()
	for _, h := range list {
		_, err := s.still(ctx, h.g)
		if ctx.Err() != nil {
			return
		}
		if core.Is(err, core.Unauthorized) || core.Is(err, core.Denied) || core.Is(err, core.NotFound) || core.Is(err, core.Conflict) {
			s.mu.Lock()
			s.drop(h.key)
			s.mu.Unlock()
		}
	}
}

// loops says whether an app has sent a browser around for too long.
func (s *Service) looping(g *grant, port int, redirect bool) bool {
	const most, within = 15, 20 * time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	l := g.loops[port]
	switch {
	case !redirect:
		delete(g.loops, port)
		return false
	case time.Since(l.since) > within:
		l = loop{since: time.Now()}
	}
	l.count++
	if l.count > most {
		delete(g.loops, port)
		return true
	}
	g.loops[port] = l
	return false
}
