package cloudtest_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
)

// said is what a server inside an instance saw of a request.
type said struct {
	Instance string
	Port     int
	Method   string
	Host     string
	URI      string
	Header   http.Header
	Bytes    int64
	Sum      string
}

// servers are the web servers inside every instance.
type servers struct {
	t   *testing.T
	mu  sync.Mutex
	all map[string]*httptest.Server
	got []string // paths of all requests
}

// seen lists the requests for a path.
func (s *servers) seen(path string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.got {
		if p == path {
			out = append(out, p)
		}
	}
	return out
}

func (s *servers) port(id string, port int) (net.Conn, error) {
	if port == 9 {
		return nil, fmt.Errorf("connection refused")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("%s:%d", id, port)
	if s.all == nil {
		s.all = map[string]*httptest.Server{}
	}
	if s.all[name] == nil {
		s.all[name] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, id, port) }))
		s.t.Cleanup(s.all[name].CloseClientConnections)
	}
	return net.Dial("tcp", s.all[name].Listener.Addr().String())
}

func (s *servers) answer(w http.ResponseWriter, r *http.Request, id string, port int) {
	s.mu.Lock()
	s.got = append(s.got, r.URL.Path)
	s.mu.Unlock()
	switch r.URL.Path {
	case "/away":
		w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
		w.WriteHeader(http.StatusFound)
	case "/cookies":
		for _, line := range r.URL.Query()["set"] {
			w.Header().Add("Set-Cookie", line)
		}
		w.Header().Set("Clear-Site-Data", `"cookies"`)
	case "/drip":
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "/socket":
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{"v1.kernel"}})
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(8 << 20)
		for {
			kind, message, err := ws.Read(context.Background())
			if err != nil || ws.Write(context.Background(), kind, message) != nil {
				return
			}
		}
	default:
		h := sha256.New()
		n, _ := io.Copy(h, r.Body)
		_ = json.NewEncoder(w).Encode(said{id, port, r.Method, r.Host, r.RequestURI, r.Header, n, fmt.Sprintf("%x", h.Sum(nil))})
	}
}

// appCloud gives a cloud whose instances have web servers.
func appCloud(t *testing.T) *cloudtest.Cloud {
	t.Helper()
	s := &servers{t: t}
	return cloudtest.StartWith(t, cloudtest.Options{Guests: fake.Options{Port: s.port}})
}

// tab is a browser's tab at one host of an instance.
type tab struct {
	t      *testing.T
	client *http.Client
	at     string // the cloud's host and port
	host   string
	pass   string
}

// newTab finds every host at the cloud, as a browser finds *.localhost.
func newTab(t *testing.T, cloudURL string) *tab {
	at := strings.TrimPrefix(cloudURL, "http://")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", at)
	}, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &tab{t: t, at: at, client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

type got struct {
	status int
	header http.Header
	body   string
}

func (b *tab) do(method, target string, body io.Reader, header ...string) got {
	b.t.Helper()
	if !strings.HasPrefix(target, "http") {
		target = "http://" + b.host + target
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, target, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.pass != "" {
		req.Header.Set("Cookie", "theirs=1; "+b.pass)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return got{res.StatusCode, res.Header, string(raw)}
}

// enter opens a port from the console and follows the link.
func enter(t *testing.T, c *cloudtest.Cloud, who *api.Client, instance string, port int) *tab {
	t.Helper()
	b := newTab(t, c.URL)
	o, err := who.InstanceOpen(t.Context(), "default", instance, port)
	if err != nil {
		t.Fatal(err)
	}
	b.host = o.Host
	b.follow(o.URL)
	return b
}

func (b *tab) follow(link string) got {
	b.t.Helper()
	res := b.do("GET", link, nil)
	cookie, rest, _ := strings.Cut(res.header.Get("Set-Cookie"), ";")
	if res.status != http.StatusSeeOther || !strings.HasPrefix(cookie, "__Host-tenon-app=") {
		b.t.Fatalf("entering: %d %v %s", res.status, res.header, res.body)
	}
	for _, must := range []string{"Path=/", "HttpOnly", "Secure", "SameSite=Lax"} {
		if !strings.Contains(rest, must) {
			b.t.Errorf("the cookie is not %s: %s", must, rest)
		}
	}
	if strings.Contains(strings.ToLower(rest), "domain") || strings.Contains(res.header.Get("Location"), "ticket") {
		b.t.Errorf("cookie %s, location %s", rest, res.header.Get("Location"))
	}
	b.pass = cookie
	return res
}

func (b *tab) saw(res got) (out said) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(res.body), &out); err != nil || res.status != http.StatusOK {
		b.t.Fatalf("%d %v: %s", res.status, err, res.body)
	}
	return out
}

func TestAppAtItsOwnHost(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	acme := c.Tenant("acme")
	i := c.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")})
	b := enter(t, c, acme.Client, "web-1", 3000)
	if !strings.HasPrefix(b.host, strings.TrimPrefix(i.ID, "inst_")+"-3000."+cloudtest.AppsDomain) {
		t.Errorf("the host is %s", b.host)
	}

	var own string
	for _, line := range b.do("GET", "/cookies?set=theirs%3D1%3B+Path%3D%2F", nil).header.Values("Set-Cookie") {
		own, _, _ = strings.Cut(line, ";") // the last is the copy that comes back to the app
	}
	tossed := "theirs=2; " + strings.Repeat("bomb=x; ", 20_000)
	saw := b.saw(b.do("POST", "/a%2Fb/../c?x=1;y&%zz", strings.NewReader("hello"), "Authorization", "Bearer stolen", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil.test",
		"Forwarded", "for=6.6.6.6", "X-Real-Ip", "6.6.6.6", "Tenon-Org", "other", "Origin", "http://"+b.host, "Accept-Encoding", "br",
		"Cookie", tossed+own+"; "+b.pass))
	if saw.Instance != i.ID || saw.Port != 3000 || saw.Method != "POST" || saw.Bytes != 5 || saw.Host != b.host || saw.URI != "/a%2Fb/../c?x=1;y&%zz" {
		t.Errorf("the app saw %+v", saw)
	}
	if got := saw.Header.Get("Cookie"); got != "theirs=1" {
		t.Errorf("the app saw the cookies %q", got)
	}
	for name, want := range map[string]string{"Authorization": "", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": b.host, "X-Forwarded-Proto": "http", "Forwarded": "", "X-Real-Ip": "", "Tenon-Org": "", "Accept-Encoding": "br"} {
		if got := strings.Join(saw.Header.Values(name), "|"); got != want {
			t.Errorf("the app saw %s: %q, want %q", name, got, want)
		}
	}

	const size = 200 << 20 // streamed: nothing on the way holds it
	sum := sha256.New()
	began := time.Now()
	saw = b.saw(b.do("PUT", "/upload", io.TeeReader(io.LimitReader(zeros{}, size), sum)))
	if saw.Bytes != size || saw.Sum != fmt.Sprintf("%x", sum.Sum(nil)) {
		t.Errorf("%d of %d bytes arrived", saw.Bytes, size)
	}
	t.Logf("200 MiB through both doors in %s", time.Since(began).Round(time.Millisecond))

	if away := b.do("GET", "/away", nil); away.status != http.StatusFound || away.header.Get("Location") != "http://169.254.169.254/latest/meta-data" {
		t.Errorf("a redirect was followed or changed: %d %v", away.status, away.header)
	}
	q := url.Values{"set": {"mine=1; Path=/", "wide=1; Domain=" + cloudtest.AppsDomain, "__Host-tenon-app=forged; Secure; Path=/", "=__Host-tenon-app=forged", "tenon_refresh=x"}}
	set := b.do("GET", "/cookies?"+q.Encode(), nil)
	if got := strings.Join(set.header.Values("Set-Cookie"), "|"); got != "mine=1; Path=/|__Host-tenon-c..mine=1; Path=/; Secure; HttpOnly" || set.header.Get("Clear-Site-Data") != "" {
		t.Errorf("cookies that reached the browser: %s (%v)", got, set.header)
	}
	for _, name := range []string{"Content-Security-Policy", "X-Frame-Options"} {
		if set.header.Get(name) != "" {
			t.Errorf("the console's %s is on an app's answer", name)
		}
	}

	if closed := enter(t, c, acme.Client, "web-1", 9).do("GET", "/", nil); closed.status != http.StatusBadGateway || !strings.Contains(closed.body, "port 9") {
		t.Errorf("a port that nothing listens on: %d %s", closed.status, closed.body)
	}
	page := b.do("GET", "/a/b", nil, "Cookie", "theirs=2; "+own+"; "+b.pass, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	if got := strings.Join(page.header.Values("Set-Cookie"), "|"); got != "theirs=; Domain="+cloudtest.AppsDomain+"; Path=/; Max-Age=0|theirs=; Domain="+cloudtest.AppsDomain+"; Path=/a; Max-Age=0" {
		t.Errorf("a cookie that another host set stays in the browser: %s", got)
	}
	if long := newTab(t, c.URL).do("GET", c.URL+"/v1/me", nil, "Cookie", tossed); long.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("the console takes a header of %d bytes: %d", len(tossed), long.status)
	}
	if _, err := acme.InstanceStop(t.Context(), "default", "web-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says that it is stopped", func() bool {
		res := b.do("GET", "/", nil)
		return res.status == http.StatusServiceUnavailable && strings.Contains(res.body, "web-1 is stopped") && strings.Contains(res.body, c.URL+"/projects/")
	})
	if _, err := acme.InstanceStart(t.Context(), "default", "web-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is started again", func() bool {
		i, err := acme.InstanceGet(t.Context(), "default", "web-1")
		return err == nil && i.State == api.StateRunning
	})
	if res := b.do("GET", "/", nil); strings.Contains(res.body, "is stopped") {
		t.Errorf("it runs, and is told to be stopped: %d %s", res.status, res.body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Two organisations: no pass, ticket or address of one opens anything of the
// other, and nobody learns what there is.
func TestAppsOfOthers(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	acme, globex := c.Tenant("acme"), c.Tenant("globex")
	in := api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")}
	mine := c.Running(acme.Client, in)
	c.Running(globex.Client, in)
	a, g := enter(t, c, acme.Client, "web-1", 8888), enter(t, c, globex.Client, "web-1", 8888)

	if _, err := globex.InstanceOpen(t.Context(), "default", mine.ID, 8888); err == nil || problemOf(t, err).Status != http.StatusNotFound {
		t.Errorf("globex opens acme's: %v", err)
	}
	anonymous := newTab(t, c.URL)
	same := func(what string, res got, host string) {
		t.Helper()
		anonymous.host = host
		want := anonymous.do("GET", "/", nil)
		if res.status != http.StatusNotFound || res.body != want.body || want.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", what, res.status, res.body)
		}
		if strings.Contains(res.body, "web-1") || !strings.Contains(res.body, c.URL+"/open/"+strings.Split(host, ":")[0]) {
			t.Errorf("%s: the page is %s", what, res.body)
		}
	}
	stranger := *g
	stranger.host = a.host
	same("another's pass", stranger.do("GET", "/", nil), a.host)
	same("another's pass, by a program", stranger.do("POST", "/api/x", strings.NewReader("{}"), "Content-Type", "application/json", "Accept", "application/json"), a.host)
	own := *a
	own.host = strings.Replace(a.host, ".", "-3000.", 1)
	same("one's own pass at another port", own.do("GET", "/", nil), own.host)
	own.host = strings.Replace(a.host, a.host[:26], strings.TrimPrefix("inst_01k3zq8h2mfw4v8y0c6d9r2t5x", "inst_"), 1)
	same("an instance that is none", own.do("GET", "/", nil), own.host)
	own.host, own.pass = a.host, "__Host-tenon-app="+acme.Token
	same("an API token for a pass", own.do("GET", "/", nil), a.host)
	own.pass = ""
	same("a bearer on an app's host", own.do("GET", "/", nil, "Authorization", "Bearer "+acme.Token), a.host)
	same("a trailing dot", a.do("GET", "/", nil, "Host", strings.Replace(a.host, ":", ".:", 1)), strings.Replace(a.host, ":", ".:", 1))

	// The console is served on none of them, and they on no console's path.
	for _, host := range []string{cloudtest.AppsDomain, "x." + cloudtest.AppsDomain, strings.ToUpper("x." + cloudtest.AppsDomain), "console." + cloudtest.AppsDomain + "."} {
		for _, path := range []string{"/", "/v1/me", "/healthz", "/signin", "/v2/"} {
			if res := anonymous.do("GET", "http://"+a.at+path, nil, "Host", host, "Authorization", "Bearer "+acme.Token); res.status != http.StatusNotFound {
				t.Errorf("%s%s: %d", host, path, res.status)
			}
		}
	}
	if res := anonymous.do("GET", "http://"+a.at+"/.tenon/enter?ticket=x", nil); res.header.Get("Set-Cookie") != "" {
		t.Errorf("the console hands out passes: %v", res.header)
	}

	// A link is good once, at its own host.
	o, err := acme.InstanceOpen(t.Context(), "default", "web-1", 8888)
	if err != nil {
		t.Fatal(err)
	}
	anonymous.host = o.Host
	ticket := o.URL[strings.Index(o.URL, "?"):]
	stranger = tab{t: t, client: g.client, at: g.at, host: g.host}
	same("another instance's link", stranger.do("GET", "/.tenon/enter"+ticket, nil), g.host)
	if res := anonymous.follow(o.URL + "&path=//evil.test/x"); res.header.Get("Location") != "/" {
		t.Errorf("an open redirect: %s", res.header.Get("Location"))
	}
	anonymous.pass = ""
	same("a link twice", anonymous.do("GET", o.URL, nil), o.Host)
	if again := a.do("GET", o.URL+"&path=/lab", nil); again.status != http.StatusSeeOther || again.header.Get("Location") != "/lab" || again.header.Get("Set-Cookie") != "" {
		t.Errorf("a link twice for one who is in: %d %v", again.status, again.header)
	}
}

// What another page makes a browser send does nothing, though the browser takes
// all apps for one site and adds the pass.
func TestAppsOfOtherPages(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	acme := c.Tenant("acme")
	c.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")})
	b := enter(t, c, acme.Client, "web-1", 8888)
	for what, header := range map[string][]string{
		"another app's form": {"Origin", "http://other." + cloudtest.AppsDomain}, "a sandboxed frame": {"Origin", "null"}, "the console's page": {"Origin", c.URL},
		"an old browser's": {"Sec-Fetch-Site", "same-site"},
	} {
		if res := b.do("POST", "/", strings.NewReader("x"), header...); res.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", what, res.status, res.body)
		}
	}
	if res := b.do("GET", "/", nil, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"); res.status != http.StatusForbidden {
		t.Errorf("reading from another app: %d", res.status)
	}
	if res := b.do("GET", "/", nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); res.status != http.StatusOK {
		t.Errorf("following a link from elsewhere: %d", res.status)
	}
	_, res, err := websocket.Dial(t.Context(), "ws://"+b.host+"/socket", &websocket.DialOptions{HTTPClient: b.client, HTTPHeader: http.Header{"Cookie": {b.pass}, "Origin": {"http://other." + cloudtest.AppsDomain}}})
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a WebSocket from another app: %v", err)
	}
}

func TestAppSockets(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	acme := c.Tenant("acme")
	c.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")})
	second, err := acme.TokenCreate(t.Context(), api.TokenCreate{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	b := enter(t, c, c.Client(second.Secret), "web-1", 8888)
	ctx := within(t, 30*time.Second)
	pinged := make(chan struct{}, 16)
	ws, res, err := websocket.Dial(ctx, "ws://"+b.host+"/socket", &websocket.DialOptions{HTTPClient: b.client, Subprotocols: []string{"v1.kernel"}, CompressionMode: websocket.CompressionContextTakeover,
		HTTPHeader: http.Header{"Cookie": {b.pass}, "Origin": {"http://" + b.host}}, OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pinged <- struct{}{}:
			default:
			}
			return true
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	ws.SetReadLimit(8 << 20)
	if ws.Subprotocol() != "v1.kernel" || res.Header.Get("Content-Security-Policy") != "" {
		t.Errorf("subprotocol %q, %v", ws.Subprotocol(), res.Header)
	}
	// Reading is what notices pings; the echo comes back between them.
	echoes := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		for {
			_, message, err := ws.Read(ctx)
			if err != nil {
				ended <- err
				return
			}
			echoes <- message
		}
	}()
	for _, n := range []int{1, 1000, 3 << 20} {
		message := bytes.Repeat([]byte("ab"), n)
		if err := ws.Write(ctx, websocket.MessageBinary, message); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-echoes:
			if !bytes.Equal(got, message) {
				t.Fatalf("%d of %d bytes came back", len(got), len(message))
			}
		case err := <-ended:
			t.Fatal(err)
		}
	}
	for range 2 { // the cloud's own interval is one second
		select {
		case <-pinged:
		case <-ctx.Done():
			t.Fatal("a quiet socket is not pinged: a proxy on the way would cut it")
		}
	}

	// A download that is under way ends with the session as well.
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.host+"/drip", nil)
	req.Header.Set("Cookie", b.pass)
	drip, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer drip.Body.Close()
	lines := bufio.NewReader(drip.Body)
	if line, _ := lines.ReadString('\n'); line != "first\n" {
		t.Errorf("the first piece was kept back: %q", line)
	}
	revoked := time.Now()
	if err := acme.TokenRevoke(ctx, second.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := lines.ReadString('\n'); err == nil || ctx.Err() != nil {
		t.Errorf("a download outlives the session: %v", err)
	}
	err = <-ended
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("a socket after the session: %v", err)
	}
	if took := time.Since(revoked); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if res := b.do("GET", "/", nil); res.status != http.StatusNotFound {
		t.Errorf("the pass outlives the session: %d", res.status)
	}
}
