package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/api"
)

// sshOptions are how a VM is entered.
type sshOptions struct {
	user            string
	identities      []string
	command         []string
	noTTY, noStdin  bool
	knownHosts      string        // path of the file
	greet           time.Duration // for the server to say hello
	patience        time.Duration // with a VM that still boots
	passphraseOf    func(file string) ([]byte, error)
	agentSocket     string
	defaultKeyFiles []string
}

// sshUser is who the images' keys are for.
const sshUser = "tenon"

// sshShell logs in to a VM through a stream to its port 22. SSH is spoken here, in
// this process: neither the cloud nor its nodes see the key or the session.
func (a *app) sshShell(ctx context.Context, c *api.Client, i *api.Instance, o sshOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	raw, err := a.bootedPort(ctx, c, i, o.patience)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	signers, cleanup, err := o.signers()
	if err != nil {
		return err
	}
	defer cleanup()
	hosts := knownHosts{path: o.knownHosts, id: i.ID, name: i.Name, say: func(text string) { _, _ = fmt.Fprintln(a.Err, text) }}
	algorithms, err := hosts.algorithms()
	if err != nil {
		return err
	}
	stop := time.AfterFunc(o.greet, cancel)
	go func() { <-ctx.Done(); _ = raw.Close() }()
	conn, channels, requests, err := ssh.NewClientConn(rawConn{raw}, i.ID, &ssh.ClientConfig{
		User: o.user, Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(signers)}, HostKeyCallback: hosts.check, HostKeyAlgorithms: algorithms,
		ClientVersion: "SSH-2.0-tenon",
	})
	late := !stop.Stop()
	switch {
	case errors.Is(err, errHostKey):
		return err
	case err != nil && late:
		return fmt.Errorf("the SSH server of %s does not answer: it may still be booting; `tenon instance console %s` shows it", i.Name, i.Name)
	case err != nil && strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%s let none of your keys in as %s: it takes the keys that it was created with (--ssh-key), or those that you put there; choose one with --identity", i.Name, o.user)
	case err != nil:
		return fmt.Errorf("log in to %s: %w", i.Name, err)
	}
	client := ssh.NewClient(conn, channels, requests)
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	defer func() { _ = session.Close() }()
	return a.sshSession(ctx, session, o)
}

// bootsWithin is how long after its start a VM that refuses port 22 may be booting.
const bootsWithin = 5 * time.Minute

// bootedPort joins port 22. Of a VM that was started lately a refusal may only mean
// that it boots: it is asked again while patience lasts.
func (a *app) bootedPort(ctx context.Context, c *api.Client, i *api.Instance, patience time.Duration) (*api.RawConn, error) {
	deadline := time.Now().Add(patience)
	for said := false; ; said = true {
		raw, err := c.Port(ctx, i.ProjectID, i.ID, 22)
		var p *api.Problem
		if err == nil || !errors.As(err, &p) || p.Code != "port_closed" || i.StartedAt == nil || a.Now().Sub(*i.StartedAt) > bootsWithin {
			return raw, err
		}
		hint := fmt.Sprintf("it may still be booting: its console (`tenon instance console %s`) shows how far it is", i.Name)
		if time.Now().After(deadline) {
			booting := *p
			booting.Detail, booting.Hint = i.Name+" does not take SSH connections yet", hint
			return nil, &booting
		}
		if !said {
			_, _ = fmt.Fprintf(a.Err, "%s does not take SSH connections yet; %s. Trying for %s.\n", i.Name, hint, short(patience))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
}

// sshSession runs a shell or a command and ends with its exit code.
func (a *app) sshSession(ctx context.Context, session *ssh.Session, o sshOptions) error {
	session.Stdout, session.Stderr = a.Out, a.Err
	in, inTTY := terminal(a.In)
	out, outTTY := terminal(a.Out)
	if inTTY && outTTY && !o.noTTY && !o.noStdin {
		width, height, err := term.GetSize(out)
		if err != nil {
			width, height = 80, 24
		}
		if err := session.RequestPty(first(a.Getenv("TERM"), "xterm"), height, width, ssh.TerminalModes{}); err != nil {
			return fmt.Errorf("ask for a terminal: %w", err)
		}
		before, err := term.MakeRaw(in)
		if err != nil {
			return fmt.Errorf("set up the terminal: %w", err)
		}
		defer func() { _ = term.Restore(in, before) }()
		go func() {
			for size := range watchSize(ctx, out) {
				_ = session.WindowChange(size[1], size[0])
			}
		}()
	}
	// Not session.Stdin: its Wait would wait for the next key that is typed.
	stdin, err := session.StdinPipe()
	if err != nil {
		return fmt.Errorf("join standard input: %w", err)
	}
	if len(o.command) > 0 {
		err = session.Start(shellWords(o.command))
	} else {
		err = session.Shell()
	}
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	go func() {
		if !o.noStdin {
			_, _ = io.Copy(stdin, a.In)
		}
		_ = stdin.Close()
	}()
	err = session.Wait()
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.Signal() != "":
		_, _ = fmt.Fprintf(a.Err, "tenon: ended by signal %s\n", exit.Signal())
		return exitWith(exitLost)
	case errors.As(err, &exit):
		return exitWith(exit.ExitStatus())
	}
	_, _ = fmt.Fprintf(a.Err, "\r\ntenon: the connection was lost: %v\r\n", err)
	return exitWith(exitLost)
}

// shellWords spells a command so that the shell at the other end takes it as the
// words that were given, as a container does.
func shellWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if w != "" && strings.IndexFunc(w, func(r rune) bool { return !strings.ContainsRune(plainRunes, r) }) < 0 {
			out[i] = w
		} else {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

const plainRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,"

// signers gathers the keys to try: those that are named, or the agent's and the
// usual files'.
func (o sshOptions) signers() (func() ([]ssh.Signer, error), func(), error) {
	var fromFiles []ssh.Signer
	for _, file := range o.identities {
		s, err := o.keyFile(file)
		if err != nil {
			return nil, nil, err
		}
		fromFiles = append(fromFiles, s)
	}
	if len(o.identities) > 0 {
		return func() ([]ssh.Signer, error) { return fromFiles, nil }, func() {}, nil
	}
	cleanup := func() {}
	var agentKeys func() ([]ssh.Signer, error)
	if o.agentSocket != "" {
		if conn, err := net.Dial("unix", o.agentSocket); err == nil {
			cleanup = func() { _ = conn.Close() }
			agentKeys = agent.NewClient(conn).Signers
		}
	}
	return func() ([]ssh.Signer, error) {
		var out []ssh.Signer
		if agentKeys != nil {
			out, _ = agentKeys() // an agent that does not answer has no keys
		}
		for _, file := range o.defaultKeyFiles {
			if _, err := os.Stat(file); err != nil {
				continue
			}
			if s, err := o.keyFile(file); err == nil && !hasKey(out, s) {
				out = append(out, s)
			}
		}
		if len(out) == 0 {
			return nil, errors.New("there is no SSH key here")
		}
		return out, nil
	}, cleanup, nil
}

func hasKey(list []ssh.Signer, s ssh.Signer) bool {
	for _, have := range list {
		if string(have.PublicKey().Marshal()) == string(s.PublicKey().Marshal()) {
			return true
		}
	}
	return false
}

func (o sshOptions) keyFile(file string) (ssh.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	s, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		var passphrase []byte
		if passphrase, err = o.passphraseOf(file); err == nil {
			s, err = ssh.ParsePrivateKeyWithPassphrase(text, passphrase)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the key %s: %w", file, err)
	}
	return s, nil
}

// askPassphrase asks on the terminal.
func (a *app) askPassphrase(file string) ([]byte, error) {
	fd, ok := terminal(a.In)
	if !ok {
		return nil, errors.New("it has a passphrase, and there is no terminal to ask for it: add it to ssh-agent")
	}
	_, _ = fmt.Fprintf(a.Err, "Passphrase for %s: ", file)
	text, err := term.ReadPassword(fd)
	_, _ = fmt.Fprintln(a.Err)
	return text, err
}

// usualKeys are where OpenSSH keeps a user's keys.
func usualKeys() []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		out = append(out, filepath.Join(home, ".ssh", name))
	}
	return out
}

// rawConn makes a stream look like a connection.
type rawConn struct{ *api.RawConn }

type rawAddr struct{}

func (rawAddr) Network() string { return "tenon" }
func (rawAddr) String() string  { return "tenon:22" }

func (rawConn) LocalAddr() net.Addr              { return rawAddr{} }
func (rawConn) RemoteAddr() net.Addr             { return rawAddr{} }
func (rawConn) SetDeadline(time.Time) error      { return nil }
func (rawConn) SetReadDeadline(time.Time) error  { return nil }
func (rawConn) SetWriteDeadline(time.Time) error { return nil }
