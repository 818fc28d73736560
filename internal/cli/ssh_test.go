package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"github.com/tenon-cloud/tenon/api"
)

// vmCloud is a cloud with one VM, whose port 22 is an SSH server and whose other
// ports say their number back.
type vmCloud struct {
	*httptest.Server
	host    atomic.Value // ssh.Signer: its host key
	allowed ssh.PublicKey
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

func newVMCloud(t *testing.T, allowed ssh.PublicKey) *vmCloud {
	t.Helper()
	c := &vmCloud{allowed: allowed}
	key, _ := newKey(t)
	c.host.Store(key)
	vm := webOne(api.StateRunning)
	vm.Name, vm.Kind = "vm-1", "vm"
	const path = "/v1/projects/default/instances/vm-1"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(vm) })
	mux.HandleFunc("GET /v1/projects/{p}/instances/{i}/ports/{port}", func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.RawSubprotocol}})
		if err != nil {
			return
		}
		ours, theirs := net.Pipe()
		if r.PathValue("port") == "22" {
			go c.ssh(theirs)
		} else {
			go func() {
				_, _ = fmt.Fprintf(theirs, "port %s\n", r.PathValue("port"))
				_, _ = io.Copy(theirs, theirs)
				_ = theirs.Close()
			}()
		}
		go func() {
			for {
				_, message, err := ws.Read(context.Background())
				if err != nil || len(message) == 0 {
					break
				}
				_, _ = ours.Write(message)
			}
			if r.PathValue("port") != "22" {
				time.AfterFunc(50*time.Millisecond, func() { _ = ours.Close() })
			}
		}()
		buf := make([]byte, 32<<10)
		for {
			n, err := ours.Read(buf)
			if n > 0 && ws.Write(context.Background(), websocket.MessageBinary, buf[:n]) != nil {
				return
			}
			if err != nil {
				_ = ws.Close(websocket.StatusNormalClosure, "")
				return
			}
		}
	})
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.CloseClientConnections)
	return c
}

// ssh is a server that runs three commands: cat, exit N and words.
func (c *vmCloud) ssh(conn net.Conn) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(who ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if who.User() != "tenon" || !bytes.Equal(key.Marshal(), c.allowed.Marshal()) {
			return nil, fmt.Errorf("not %s", who.User())
		}
		return nil, nil
	}}
	config.AddHostKey(c.host.Load().(ssh.Signer))
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		_ = conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		channel, requests, err := asked.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				_ = r.Reply(false, nil)
				continue
			}
			var command struct{ Text string }
			_ = ssh.Unmarshal(r.Payload, &command)
			_ = r.Reply(true, nil)
			code := 0
			switch {
			case command.Text == "cat":
				_, _ = io.Copy(channel, channel)
			case strings.HasPrefix(command.Text, "exit "):
				_, _ = fmt.Sscanf(command.Text, "exit %d", &code)
			default:
				_, _ = fmt.Fprintln(channel, command.Text)
			}
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
			_ = channel.Close()
		}
	}
}

func TestAVMIsEnteredBySSH(t *testing.T) {
	t.Parallel()
	key, private := newKey(t)
	c := newVMCloud(t, key.PublicKey())
	dir := t.TempDir()
	identity := filepath.Join(dir, "id")
	if err := os.WriteFile(identity, private, 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config", "config.json")
	shell := func(in string, args ...string) result {
		return tenonWith(t, map[string]string{"TENON_URL": c.URL, "TENON_TOKEN": "tenon_test"}, config, in, append([]string{"instance", "shell", "vm-1"}, args...)...)
	}
	big := strings.Repeat("0123456789abcdef", 50_000)
	if r := shell(big, "-i", identity, "--", "cat"); r.code != 0 || r.out != big || !strings.Contains(r.err, "new here and trusted") {
		t.Fatalf("cat: %d, %d bytes, %s", r.code, len(r.out), r.err)
	}
	if r := shell("", "-i", identity, "-n", "--", "exit", "42"); r.code != 42 || r.err != "" {
		t.Errorf("exit 42: %+v", r)
	}
	if r := shell("", "-i", identity, "--", "echo", "it's a b", "$HOME", "", "x=1"); r.out != "echo 'it'\\''s a b' '$HOME' '' x=1\n" {
		t.Errorf("words: %+v", r)
	}
	if r := shell("", "-i", identity, "--user", "root", "--", "cat"); r.code != exitError || !strings.Contains(r.err, "let none of your keys in as root") {
		t.Errorf("another user: %+v", r)
	}
	other, _ := newKey(t)
	c.host.Store(other)
	r := shell("secret", "-i", identity, "--", "cat")
	if r.code != exitError || r.out != "" || !strings.Contains(r.err, "host key has changed") || !strings.Contains(r.err, ssh.FingerprintSHA256(other.PublicKey())) {
		t.Errorf("another host key: %+v", r)
	}
	if info, err := os.Stat(filepath.Join(dir, "config", "known_hosts")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("known hosts: %v %v", info, err)
	}
}

func TestForwardJoinsStandardStreams(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	c := newVMCloud(t, key.PublicKey())
	env := map[string]string{"TENON_URL": c.URL, "TENON_TOKEN": "tenon_test"}
	r := tenonWith(t, env, "", "hello\n", "instance", "forward", "vm-1", "--stdio", "5432")
	if r.code != 0 || r.out != "port 5432\nhello\n" {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{}, {"x"}, {"0"}, {"8080:"}, {"1:2:3"}, {"65536"}, {"80", "--stdio", "22"}, {"--stdio", "70000"}} {
		if r := tenonWith(t, env, "", "", append([]string{"instance", "forward", "vm-1"}, args...)...); r.code != exitUsage {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

func TestForwardListensHere(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	c := newVMCloud(t, key.PublicKey())
	ctx, cancel := context.WithCancel(t.Context())
	said, saying := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, []string{"instance", "forward", "vm-1", "0:8888"}, "1.2.3", Streams{In: strings.NewReader(""), Out: io.Discard, Err: saying,
			Getenv: func(k string) string { return map[string]string{"TENON_URL": c.URL, "TENON_TOKEN": "tenon_test"}[k] }, Now: time.Now})
	}()
	var address string
	if _, err := fmt.Fscanf(said, "http://%s is", &address); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	conn, err := net.Dial("tcp", address)
	if err != nil || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Fatal(address, err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "ping\n")
	_ = conn.(*net.TCPConn).CloseWrite()
	if all, err := io.ReadAll(conn); err != nil || string(all) != "port 8888\nping\n" {
		t.Errorf("%q %v", all, err)
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("Ctrl-C gives %d", code)
	}
}
