package authn

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Kinds of sealed keys.
const (
	kindJWT    = "jwt"
	kindNodeCA = "node_ca"
)

// SealedKey is a key as it is stored.
type SealedKey struct {
	Name       string
	Kind       string
	Public     []byte // a jwt's public key; the node CA's certificate
	Ciphertext []byte
	CreatedAt  time.Time
}

// KeyStore keeps sealed keys; package postgres is one.
type KeyStore interface {
	CloudID(ctx context.Context) (string, error)
	SealedKeyList(ctx context.Context) ([]SealedKey, error) // not retired, oldest first
	SealedKeyAdd(ctx context.Context, k SealedKey) error    // keeps the one that is there
}

// Keys is every key that a control plane holds: for access JWTs and for nodes'
// certificates.
type Keys struct {
	cloudID string
	jwt     []jwtKey // oldest first; the newest signs, all verify
	ca      nodeCA
	refresh []byte // from which a refresh token's successor follows
	master  *Master
}

// KeysLoad opens the sealed keys, and makes the first of each kind.
func KeysLoad(ctx context.Context, m *Master, store KeyStore, now time.Time) (*Keys, error) {
	cloudID, err := store.CloudID(ctx)
	if err != nil {
		return nil, err
	}
	have, err := store.SealedKeyList(ctx)
	if err != nil {
		return nil, err
	}
	made := false
	for _, kind := range []string{kindJWT, kindNodeCA} {
		if holds(have, kind) {
			continue
		}
		k, err := keyMake(m, kind, cloudID, now)
		if err != nil {
			return nil, err
		}
		if err := store.SealedKeyAdd(ctx, k); err != nil {
			return nil, err
		}
		made = true
	}
	if made { // another process may have been first
		if have, err = store.SealedKeyList(ctx); err != nil {
			return nil, err
		}
	}
	out := &Keys{cloudID: cloudID, refresh: m.derive("refresh rotation"), master: m}
	for _, k := range have {
		if err := out.open(m, k); err != nil {
			return nil, err
		}
	}
	if len(out.jwt) == 0 || out.ca.key == nil {
		return nil, errors.New("load keys: one that was just made is not there")
	}
	return out, nil
}

// CloudID is the cloud whose keys these are.
func (k *Keys) CloudID() string { return k.cloudID }

func holds(keys []SealedKey, kind string) bool {
	for _, k := range keys {
		if k.Kind == kind {
			return true
		}
	}
	return false
}

func keyMake(m *Master, kind, cloudID string, now time.Time) (SealedKey, error) {
	k := SealedKey{Name: kind + "-1", Kind: kind}
	var secret []byte
	var err error
	if kind == kindNodeCA {
		k.Public, secret, err = caMake(cloudID, now)
	} else {
		var private ed25519.PrivateKey
		if k.Public, private, err = ed25519.GenerateKey(rand.Reader); err == nil {
			secret, err = x509.MarshalPKCS8PrivateKey(private)
		}
	}
	if err != nil {
		return SealedKey{}, fmt.Errorf("make a %s key: %w", kind, err)
	}
	k.Ciphertext, err = m.Seal(kind, k.Name, secret)
	return k, err
}

func (k *Keys) open(m *Master, s SealedKey) error {
	secret, err := m.Unseal(s.Kind, s.Name, s.Ciphertext)
	if err != nil {
		return err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(secret)
	if err != nil {
		return fmt.Errorf("read key %s: %w", s.Name, err)
	}
	switch s.Kind {
	case kindJWT:
		private, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return fmt.Errorf("read key %s: not an Ed25519 key", s.Name)
		}
		k.jwt = append(k.jwt, jwtKey{id: s.Name, private: private})
	case kindNodeCA:
		cert, err := x509.ParseCertificate(s.Public)
		if err != nil {
			return fmt.Errorf("read the certificate of key %s: %w", s.Name, err)
		}
		signer, ok := parsed.(crypto.Signer)
		if !ok {
			return fmt.Errorf("read key %s: it can't sign", s.Name)
		}
		k.ca = nodeCA{cert: cert, key: signer}
	}
	return nil
}
