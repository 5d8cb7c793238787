package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"drydock/internal/core"
)

// Key signs statements.
type Key struct {
	private ed25519.PrivateKey
}

// PublicKey checks them.
type PublicKey struct {
	key ed25519.PublicKey
}

// ID names a key: the digest of its standard encoding.
func (p PublicKey) ID() string {
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// PEM is the key in the usual text form.
func (p PublicKey) PEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// Public is the half that may be given away.
func (k Key) Public() PublicKey {
	public, _ := k.private.Public().(ed25519.PublicKey)
	return PublicKey{public}
}

// LoadKey reads the daemon's key and makes it first if it is not there. A key
// that others can read is refused.
func LoadKey(path string) (Key, error) {
	const op = "evidence.key"
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return Key{}, core.E(op, core.Unavailable, err, "make the signing key %s", path)
		}
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return Key{}, core.E(op, core.Unavailable, err, "read the signing key %s", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return Key{}, core.E(op, core.Unavailable, err, "read the signing key %s", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Key{}, core.E(op, core.Denied, nil, "the signing key %s has mode %04o: others can read it", path, info.Mode().Perm()).
			WithHint("chmod 600 %s, and make a new key if anybody may have read it", path)
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "PRIVATE KEY" {
		return Key{}, core.E(op, core.Invalid, nil, "the signing key %s is not a private key in PEM form", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, core.E(op, core.Invalid, err, "the signing key %s", path)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return Key{}, core.E(op, core.Invalid, nil, "the signing key %s is not an ed25519 key", path)
	}
	return Key{private}, nil
}

// makeKey writes a new key completely or not at all, and never over another.
func makeKey(path string) error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

// ParsePublicKeys reads one or more keys in PEM form: the published list of
// keys that were ever in use.
func ParsePublicKeys(text []byte) ([]PublicKey, error) {
	var out []PublicKey
	for len(out) < 1000 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, core.E("evidence.key", core.Invalid, err, "public key %d of the list", len(out)+1)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, core.E("evidence.key", core.Invalid, nil, "public key %d of the list is not an ed25519 key", len(out)+1)
		}
		out = append(out, PublicKey{key})
	}
	if len(out) == 0 {
		return nil, core.E("evidence.key", core.Invalid, nil, "no public key in PEM form")
	}
	return out, nil
}
