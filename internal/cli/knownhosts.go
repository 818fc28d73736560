package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

var errHostKey = errors.New("the VM's host key has changed")

// knownHosts trusts a VM's key when it is first seen and refuses another from
// then on. An instance's id never comes again, so a changed key is either a VM
// that was made anew from inside, or somebody in between.
type knownHosts struct {
	path, id, name string
	say            func(string)
}

// keys reads what is known of the instance; the file is in OpenSSH's form.
func (k knownHosts) keys() ([]ssh.PublicKey, error) {
	text, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) || k.path == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read known hosts: %w", err)
	}
	var out []ssh.PublicKey
	for line := range strings.SplitSeq(string(text), "\n") {
		host, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if host != k.id {
			continue
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(rest))
		if err != nil {
			return nil, fmt.Errorf("%s is damaged at %s: remove that line", k.path, k.id)
		}
		out = append(out, key)
	}
	return out, nil
}

// algorithms asks the server for the kind of key that is known; nil: any.
func (k knownHosts) algorithms() ([]string, error) {
	keys, err := k.keys()
	var out []string
	for _, key := range keys {
		if key.Type() == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		out = append(out, key.Type())
	}
	return out, err
}

func (k knownHosts) check(_ string, _ net.Addr, shown ssh.PublicKey) error {
	keys, err := k.keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if bytes.Equal(key.Marshal(), shown.Marshal()) {
			return nil
		}
	}
	if len(keys) > 0 {
		return fmt.Errorf(`%w.
  %s (%s) showed   %s
  and before it was %s
  Nothing was sent. Either its SSH keys were made anew inside, or somebody is in
  between. If you know why it changed, remove its line from %s`,
			errHostKey, k.name, k.id, ssh.FingerprintSHA256(shown), ssh.FingerprintSHA256(keys[0]), k.path)
	}
	if err := k.add(shown); err != nil {
		return err
	}
	k.say(fmt.Sprintf("Its host key is new here and trusted from now on: %s", ssh.FingerprintSHA256(shown)))
	return nil
}

func (k knownHosts) add(key ssh.PublicKey) error {
	if k.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return fmt.Errorf("keep the host key: %w", err)
	}
	f, err := os.OpenFile(k.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the host key: %w", err)
	}
	_, err = f.WriteString(k.id + " " + string(ssh.MarshalAuthorizedKey(key)))
	return errors.Join(err, f.Close())
}
