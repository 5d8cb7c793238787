package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"drydock/internal/core"
)

const (
	// MaxManifest is what registries take for a manifest.
	MaxManifest = 4 << 20

	mediaIndex = "application/vnd.oci.image.index.v1+json"
	// answerAfter is how long a registry may think, once it has everything.
	answerAfter = 10 * time.Minute
	remoteTries = 4
)

// Descriptor names content in a registry.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

// Access says what is wanted of a repository.
type Access struct {
	Push     bool
	Insecure bool     // without TLS, also where that is not this machine
	From     []string // repositories of the same registry to mount blobs from
}

// Remote is one repository of a registry, under the login of this host.
type Remote struct {
	ref    name.Reference
	client *http.Client
	rt     http.RoundTripper
}

// Remote opens the repository of a reference.
func (s *Store) Remote(ctx context.Context, reference string, a Access) (*Remote, error) {
	insecure := s.opts.Registry.Insecure
	if a.Insecure {
		host, _, _ := strings.Cut(reference, "/")
		insecure = append(slices.Clone(insecure), host)
	}
	ref, err := s.parseReference(reference, insecure)
	if err != nil {
		return nil, err
	}
	auth, err := s.credentials(ref.Context().RegistryStr())
	if err != nil {
		return nil, err
	}
	rt, err := s.httpTransport(insecure, answerAfter)
	if err != nil {
		return nil, err
	}
	r := &Remote{ref: ref, rt: rt}
	scopes := []string{ref.Scope(transport.PullScope)}
	if a.Push {
		scopes[0] = ref.Scope(transport.PushScope)
	}
	for _, repo := range a.From {
		scopes = append(scopes, "repository:"+repo+":pull")
	}
	logged, err := transport.NewWithContext(ctx, ref.Context().Registry, auth, transport.NewUserAgent(rt, "drydock"), scopes)
	if err != nil {
		r.Close()
		return nil, remoteError(err, ref.Name())
	}
	r.client = &http.Client{Transport: logged}
	return r, nil
}

// Close ends idle connections.
func (r *Remote) Close() {
	if c, ok := r.rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Name is the whole reference; Registry and Repository are its parts.
func (r *Remote) Name() string       { return r.ref.Name() }
func (r *Remote) Registry() string   { return r.ref.Context().RegistryStr() }
func (r *Remote) Repository() string { return r.ref.Context().RepositoryStr() }

// Identifier is the tag or digest of the reference, and whether it is a tag.
func (r *Remote) Identifier() (string, bool) {
	_, exact := r.ref.(name.Digest)
	return r.ref.Identifier(), !exact
}

func (r *Remote) url(parts ...string) string {
	u := url.URL{
		Scheme: r.ref.Context().Scheme(), Host: r.Registry(),
		Path: "/v2/" + r.Repository() + "/" + strings.Join(parts, "/"),
	}
	return u.String()
}

// Digest of content, as registries write it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// IsDigest says whether a text is one.
func IsDigest(s string) bool {
	hexa, ok := strings.CutPrefix(s, "sha256:")
	return ok && isHex(hexa)
}

// passing says whether it may help to ask again.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errPlain) {
		return false
	}
	if _, ours := errors.AsType[*core.Error](err); ours {
		return false
	}
	e, ok := errors.AsType[*transport.Error](err)
	return !ok || e.StatusCode >= 500 || e.StatusCode == http.StatusTooManyRequests || e.StatusCode == http.StatusRequestTimeout
}

func status(err error) int {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

// pause waits before another try.
func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(100 * time.Millisecond << (2 * try))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask sends a request without a long body, again where that may help. The
// caller closes the answer's body.
func (r *Remote) ask(ctx context.Context, method, to string, header http.Header, body []byte, codes ...int) (*http.Response, error) {
	for try := 0; ; try++ {
		resp, err := r.once(ctx, method, to, header, body, codes...)
		if err == nil || !passing(err) || try+1 >= remoteTries || ctx.Err() != nil {
			return resp, err
		}
		if pause(ctx, try) != nil {
			return nil, err
		}
	}
}

func (r *Remote) once(ctx context.Context, method, to string, header http.Header, body []byte, codes ...int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, codes...); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// Manifest reads a manifest by tag or digest.
func (r *Remote) Manifest(ctx context.Context, what string) (Descriptor, []byte, error) {
	d, raw, err := r.manifest(ctx, what, "application/vnd.oci.image.manifest.v1+json", mediaIndex,
		"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json")
	return d, raw, r.fault(err, "manifest "+what)
}

func (r *Remote) manifest(ctx context.Context, what string, accept ...string) (Descriptor, []byte, error) {
	resp, err := r.ask(ctx, http.MethodGet, r.url("manifests", what), http.Header{"Accept": accept}, nil, http.StatusOK)
	if err != nil {
		return Descriptor{}, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1))
	if err != nil {
		return Descriptor{}, nil, err
	}
	if len(raw) > MaxManifest {
		return Descriptor{}, nil, core.E("image.registry", core.Exhausted, nil, "manifest %s is larger than %d bytes", what, MaxManifest)
	}
	d := Descriptor{MediaType: resp.Header.Get("Content-Type"), Digest: Digest(raw), Size: int64(len(raw))}
	if IsDigest(what) && d.Digest != what {
		return d, nil, errSwapped
	}
	return d, raw, nil
}

// PutManifest writes a manifest under a tag or its digest. Refers says that the
// registry keeps the manifest in the list of what refers to its subject.
func (r *Remote) PutManifest(ctx context.Context, what, mediaType string, raw []byte) (refers bool, err error) {
	resp, err := r.ask(ctx, http.MethodPut, r.url("manifests", what), http.Header{"Content-Type": {mediaType}}, raw,
		http.StatusCreated, http.StatusOK, http.StatusAccepted)
	if err != nil {
		return false, r.fault(err, "manifest "+what)
	}
	defer resp.Body.Close()
	return resp.Header.Get("Oci-Subject") != "", nil
}

func fallbackTag(digest string) string { return strings.Replace(digest, ":", "-", 1) }

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []Descriptor `json:"manifests"`
}

// Referrers are the manifests that name a digest as their subject.
func (r *Remote) Referrers(ctx context.Context, digest string) ([]Descriptor, error) {
	list, _, err := r.referrers(ctx, digest)
	return list, r.fault(err, "what refers to "+digest)
}

func (r *Remote) referrers(ctx context.Context, digest string) (list []Descriptor, api bool, err error) {
	var raw []byte
	resp, err := r.ask(ctx, http.MethodGet, r.url("referrers", digest), http.Header{"Accept": {mediaIndex}}, nil, http.StatusOK)
	if err == nil {
		raw, err = io.ReadAll(io.LimitReader(resp.Body, MaxManifest))
		_ = resp.Body.Close()
		if err != nil {
			return nil, false, err
		}
		api = strings.HasPrefix(resp.Header.Get("Content-Type"), mediaIndex)
	} else if code := status(err); code < 400 || code >= 500 || code == http.StatusUnauthorized || code == http.StatusForbidden {
		return nil, false, err
	}
	if !api { // the registry is older than the list: a tag stands for it
		_, raw, err = r.manifest(ctx, fallbackTag(digest), mediaIndex)
		if status(err) == http.StatusNotFound {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	var in index
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, api, core.E("image.registry", core.Invalid, err, "the list of what refers to %s cannot be read", digest)
	}
	return in.Manifests, api, nil
}

// Refer adds a manifest to the list of what refers to a digest, for registries
// that do not keep one themselves.
func (r *Remote) Refer(ctx context.Context, digest string, d Descriptor) error {
	list, api, err := r.referrers(ctx, digest)
	if err != nil || api {
		return r.fault(err, "what refers to "+digest)
	}
	list = slices.DeleteFunc(list, func(have Descriptor) bool { return have.Digest == d.Digest })
	raw, err := json.Marshal(index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: append(list, d)})
	if err != nil {
		return core.E("image.registry", core.Internal, err, "list of what refers to %s", digest)
	}
	_, err = r.PutManifest(ctx, fallbackTag(digest), mediaIndex, raw)
	return err
}

// fault says what went wrong with a part of the reference.
func (r *Remote) fault(err error, what string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errSwapped) {
		return core.E("image.registry", core.Invalid, nil, "%s: %s: the registry sent something else than was asked for", r.Name(), what)
	}
	if size, ok := errors.AsType[sizeError](err); ok {
		return core.E("image.registry", core.Invalid, nil, "%s: %s: %v", r.Name(), what, size)
	}
	return remoteError(err, r.Name()+": "+what)
}

var errSwapped = errors.New("not what the digest says")
