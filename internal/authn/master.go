package authn

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const masterBytes = 32

// Master is the one key from which all others are derived, or under which they
// are sealed. It is never written anywhere but to its file.
type Master struct{ key []byte }

// MasterLoad reads the master key's file, which nobody else may be able to
// read, and makes it when it is not there.
func MasterLoad(path string) (*Master, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := masterMake(path); err != nil {
			return nil, err
		}
		info, err = os.Stat(path)
	}
	if err != nil {
		return nil, fmt.Errorf("look at the master key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("master key %s can be read by others (mode %04o): chmod 600 it, and think of it as known to them", path, mode)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	if len(b) != masterBytes {
		if b, err = hex.DecodeString(strings.TrimSpace(string(b))); err != nil || len(b) != masterBytes {
			return nil, fmt.Errorf("master key %s is neither 32 bytes nor 64 hexadecimal digits", path)
		}
	}
	return &Master{key: b}, nil
}

// MasterNew makes a master key that lives only in memory.
func MasterNew() *Master {
	key := make([]byte, masterBytes)
	_, _ = rand.Read(key) // never fails
	return &Master{key: key}
}

// masterMake writes a whole file or none; of two that race, the first one's
// stays.
func masterMake(path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".master-key-") // 0600
	if err != nil {
		return fmt.Errorf("make the master key: %w", err)
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(MasterNew().key); err == nil {
		err = tmp.Sync()
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write the master key: %w", err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("put the master key in place: %w", err)
	}
	return nil
}

// derive gives a key for one purpose, from which no other can be told.
func (m *Master) derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, m.key, nil, "tenon "+purpose, 32)
	if err != nil {
		panic(err) // only for a length that is out of range
	}
	return key
}

// RolePassword is the password of a database role.
func (m *Master) RolePassword(role string) string {
	return hex.EncodeToString(m.derive("database role " + role))
}

// RegistrySecret signs the state of uploads to the embedded registry, alike on
// every replica.
func (m *Master) RegistrySecret() []byte { return m.derive("registry uploads") }

// Fingerprint tells one master key from another, and nothing of either.
func (m *Master) Fingerprint() string { return hex.EncodeToString(m.derive("fingerprint")[:8]) }

// Seal encrypts a secret; name is bound to it, so that one can't be put in
// another's place.
func (m *Master) Seal(purpose, name string, secret []byte) ([]byte, error) {
	aead, err := m.aead(purpose)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce)
	return aead.Seal(nonce, nonce, secret, []byte(name)), nil
}

// Unseal decrypts what Seal made.
func (m *Master) Unseal(purpose, name string, sealed []byte) ([]byte, error) {
	aead, err := m.aead(purpose)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, fmt.Errorf("unseal %s: too short", name)
	}
	out, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(name))
	if err != nil {
		return nil, fmt.Errorf("unseal %s: it was sealed with another master key, or is damaged", name)
	}
	return out, nil
}

func (m *Master) aead(purpose string) (cipher.AEAD, error) {
	block, err := aes.NewCipher(m.derive("seal " + purpose))
	if err != nil {
		return nil, fmt.Errorf("make the cipher: %w", err)
	}
	return cipher.NewGCM(block)
}
