package evidence

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
)

const payloadType = "application/vnd.in-toto+json"

// envelope is a DSSE envelope. Signing and checking is little enough to be
// done here, and it must not print or accept more than it has to.
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// pae is the pre-authentication encoding of DSSE version 1.
func pae(kind string, payload []byte) []byte {
	return append(fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(kind), kind, len(payload)), payload...)
}

// sign makes one line of the statements file, without its line feed.
func (k Key) sign(statement any) ([]byte, error) {
	payload, err := json.Marshal(statement)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{
		PayloadType: payloadType, Payload: payload,
		Signatures: []signature{{KeyID: k.Public().ID(), Sig: ed25519.Sign(k.private, pae(payloadType, payload))}},
	})
}

var (
	errNotEnvelope = errors.New("not a DSSE envelope of an in-toto statement")
	errUnknownKey  = errors.New("not signed by a known key")
	errSignature   = errors.New("the signature does not fit")
)

// openEnvelope checks a line and returns its statement and the key that signed it.
func openEnvelope(line []byte, keys []PublicKey) (payload []byte, keyID string, err error) {
	var e envelope
	dec := json.NewDecoder(bytes.NewReader(line))
	if err := dec.Decode(&e); err != nil || dec.More() {
		return nil, "", errNotEnvelope
	}
	if e.PayloadType != payloadType || len(e.Payload) == 0 {
		return nil, "", errNotEnvelope
	}
	err = errUnknownKey
	message := pae(e.PayloadType, e.Payload)
	for i, s := range e.Signatures {
		if i >= 16 {
			break
		}
		for _, k := range keys {
			id := k.ID()
			if s.KeyID != "" && s.KeyID != id {
				continue
			}
			if ed25519.Verify(k.key, message, s.Sig) {
				return e.Payload, id, nil
			}
			err = errSignature
		}
	}
	return nil, "", err
}
