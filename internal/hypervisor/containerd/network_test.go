package containerd

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/network"
)

const webServer = "mkdir -p /www; echo hello >/www/index.html; httpd -f -p 80 -h /www"

// fetches says whether a guest can load a page from an address.
func (c *cloudUnderTest) fetches(t *testing.T, id, address string) bool {
	t.Helper()
	host, port, found := strings.Cut(address, ":")
	if !found {
		port = "80"
	}
	out, _ := c.sh(t, id, `printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 2 `+host+" "+port+" 2>/dev/null")
	return strings.Contains(out, " 200 OK")
}

func TestGuestsAreApart(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	other := newCloud(t)
	img := c.push(t, v1.Config{})
	a := c.start(t, spec("inst_a", img, "sh", "-c", webServer))
	b := c.start(t, spec("inst_b", img, "sh", "-c", webServer))
	other.registry = c.registry
	x := other.start(t, spec("inst_x", img, "sh", "-c", webServer))
	if c.net.Subnet().Overlaps(other.net.Subnet()) {
		t.Fatalf("two clouds share %s", c.net.Subnet())
	}
	// A guest serves a low port, to itself and to the host that proxies for it.
	eventually(t, 10*time.Second, "the guest's own page", func() bool { return c.fetches(t, a.ID, "127.0.0.1") })
	eventually(t, 10*time.Second, "the host to reach the guest", func() bool {
		conn, err := net.DialTimeout("tcp", b.Address+":80", time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	host, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	go func() {
		for {
			conn, err := host.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("HTTP/1.0 200 OK\r\n\r\nhost"))
			conn.Close()
		}
	}()
	port := host.Addr().(*net.TCPAddr).Port
	for what, address := range map[string]string{
		"its neighbour":              b.Address,
		"another cloud's guest":      x.Address,
		"a host service, by gateway": fmt.Sprintf("%s:%d", c.net.Gateway(), port),
		"a host service, by address": fmt.Sprintf("%s:%d", hostAddress(t), port),
		"the other cloud's gateway":  fmt.Sprintf("%s:%d", other.net.Gateway(), port),
		"the metadata service":       "169.254.169.254",
	} {
		if c.fetches(t, a.ID, address) {
			t.Errorf("the guest reached %s at %s", what, address)
		}
	}
	// Not through the gateway either, which would route it back to the bridge.
	if out, code := c.sh(t, a.ID, "ping -c 1 -W 1 "+b.Address); code == 0 {
		t.Errorf("the guest pinged its neighbour: %s", out)
	}
	if out, code := c.sh(t, a.ID, "ping -c 1 -W 2 "+c.net.Gateway().String()); code != 0 {
		t.Errorf("the gateway does not answer: %s", out)
	}
	// Traffic is counted.
	usage, err := c.Stats(context.Background(), a.ID)
	if err != nil || usage.NetTxBytes < 100 || usage.NetRxBytes < 100 {
		t.Errorf("counters: %+v, %v", usage, err)
	}
}

func hostAddress(t *testing.T) string {
	t.Helper()
	conn, err := net.Dial("udp", "192.0.2.1:9") // sends nothing
	if err != nil {
		t.Skipf("this host has no address of its own: %v", err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String()
}

// TestGuestsCantTakeAnothersAddress gives a guest more than it has: the address
// of another, set from outside, as if it could.
func TestGuestsCantTakeAnothersAddress(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	a := c.start(t, spec("inst_spoof", c.push(t, v1.Config{}), "sleep", "1000"))
	at, ok := c.net.Lookup(a.ID)
	if !ok {
		t.Fatal("no attachment")
	}
	inside := func(args ...string) (string, error) {
		out, err := exec.Command("nsenter", append([]string{"--net=" + at.NetNS}, args...)...).CombinedOutput()
		return string(out), err
	}
	gateway := c.net.Gateway().String()
	if out, err := inside("busybox", "ping", "-c", "1", "-W", "2", gateway); err != nil {
		t.Fatalf("before: %s", out)
	}
	taken := c.net.Gateway().Next().Next().Next().Next().Next()
	if out, err := inside("ip", "addr", "add", taken.String()+"/22", "dev", "eth0"); err != nil {
		t.Fatal(out)
	}
	if out, err := inside("busybox", "ping", "-c", "1", "-W", "1", "-I", taken.String(), gateway); err == nil {
		t.Errorf("another's address passed: %s", out)
	}
	if out, err := inside("ip", "link", "set", "eth0", "address", "02:00:00:00:00:99"); err != nil {
		t.Fatal(out)
	}
	if out, err := inside("busybox", "ping", "-c", "1", "-W", "1", gateway); err == nil {
		t.Errorf("another's hardware address passed: %s", out)
	}
}

func TestGuestsResolveNames(t *testing.T) {
	t.Parallel()
	upstream := answerDNS(t, net.IPv4(192, 0, 2, 77))
	c := newCloud(t, upstream)
	s := spec("inst_dns", c.push(t, v1.Config{}), "sleep", "1000")
	c.start(t, s)
	resolves := func() bool {
		out, _ := c.sh(t, s.ID, "nslookup -type=a some.name.test 2>&1")
		return strings.Contains(out, "192.0.2.77")
	}
	if !resolves() {
		t.Error("the guest does not resolve a name")
	}
	// A killed forwarder comes back.
	pid, err := os.ReadFile(c.run + "/network/dnsmasq.pid")
	if err != nil {
		t.Fatal(err)
	}
	var number int
	fmt.Sscan(string(pid), &number)
	if err := unix.Kill(number, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the forwarder to come back", resolves)
}

// answerDNS is an upstream that knows one answer to everything.
func answerDNS(t *testing.T, ip net.IP) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if n < 12 {
				continue
			}
			end := 12
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			end += 5
			answer := append([]byte{}, buf[:end]...)
			binary.BigEndian.PutUint16(answer[2:], 0x8180)
			binary.BigEndian.PutUint16(answer[6:], 1)
			binary.BigEndian.PutUint16(answer[8:], 0)
			binary.BigEndian.PutUint16(answer[10:], 0)
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
			conn.WriteTo(append(answer, ip.To4()...), from)
		}
	}()
	return fmt.Sprintf("127.0.0.1#%d", conn.LocalAddr().(*net.UDPAddr).Port)
}

func TestDownTakesOnlyThisCloud(t *testing.T) {
	t.Parallel()
	c, other := newCloud(t), newCloud(t)
	img := c.push(t, v1.Config{})
	other.registry = c.registry
	c.start(t, spec("inst_down", img, "sleep", "1000"))
	x := other.start(t, spec("inst_up", img, "sh", "-c", webServer))
	mine, theirs := c.net.Subnet(), other.net.Subnet()
	r1, _ := c.readRecord("inst_down")
	r2, _ := other.readRecord("inst_up")
	if r1.IDs.Base == r2.IDs.Base || r1.IDs.Size != 65536 {
		t.Errorf("two clouds share ids: %+v and %+v", r1.IDs, r2.IDs)
	}
	if err := c.net.Down(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := net.InterfaceByName(network.BridgeName(c.id)); err == nil {
		t.Error("the bridge is left")
	}
	tables, _ := exec.Command("nft", "list", "tables").CombinedOutput()
	if strings.Contains(string(tables), c.id) || !strings.Contains(string(tables), other.id) {
		t.Errorf("tables:\n%s", tables)
	}
	conn, err := net.DialTimeout("tcp", x.Address+":80", 5*time.Second)
	if err != nil {
		t.Errorf("the other cloud's guest does not answer: %v", err)
	} else {
		conn.Close()
	}
	if err := c.net.Up(context.Background()); err != nil {
		t.Fatal(err)
	}
	if c.net.Subnet() != mine || other.net.Subnet() != theirs {
		t.Errorf("subnets were not remembered: %s, %s", c.net.Subnet(), other.net.Subnet())
	}
}

// TestGuestsReachTheWorldBehindTheHost puts a server behind the host that has no
// route back to the guests: it only answers what comes from the host's address.
func TestGuestsReachTheWorldBehindTheHost(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_nat", c.push(t, v1.Config{}), "sleep", "1000")
	c.start(t, s)
	ns, link := "tenon-out-"+c.id, "to"+c.id[:6]
	t.Cleanup(func() { exec.Command("ip", "netns", "del", ns).Run() })
	www := t.TempDir()
	if err := os.WriteFile(www+"/index.html", []byte("out"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-ec", fmt.Sprintf(`ip netns add %[1]s
ip link add %[2]s type veth peer name eth0 netns %[1]s
ip addr add 198.51.100.1/30 dev %[2]s; ip link set %[2]s up
echo 1 >/proc/sys/net/ipv4/conf/%[2]s/forwarding
ip netns exec %[1]s ip addr add 198.51.100.2/30 dev eth0; ip netns exec %[1]s ip link set eth0 up
ip netns exec %[1]s busybox httpd -p 80 -h %[3]s`, ns, link, www)).CombinedOutput()
	if err != nil {
		t.Fatalf("build the world: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("sh", "-c", "kill $(ip netns pids "+ns+")").Run() })
	eventually(t, 10*time.Second, "the world to answer", func() bool { return c.fetches(t, s.ID, "198.51.100.2") })
}
