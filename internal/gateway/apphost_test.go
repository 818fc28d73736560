package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

func TestHostsOfInstances(t *testing.T) {
	t.Parallel()
	a := Apps{Domain: "apps.example", Console: &url.URL{Scheme: "https", Host: "cloud.example:8443"}}
	instance := cloud.InstanceID{}.New()
	for _, port := range []int{8888, 1, 80, 65535} {
		host := a.Host(instance, port)
		for _, spelled := range []string{host, host + ":8443", strings.ToUpper(host)} {
			got, p, ok := a.Parse(spelled)
			if !ok || got != instance || p != port || !a.Owns(spelled) {
				t.Errorf("%s: %v %d %v", spelled, got, p, ok)
			}
		}
		if got := a.Authority(instance, port); got != host+":8443" {
			t.Errorf("authority %s", got)
		}
	}
	label := strings.TrimSuffix(a.Host(instance, 8888), ".apps.example")
	for _, host := range []string{
		"apps.example", "x.apps.example", label + "-8888.apps.example", label + "-0.apps.example", label + "-65536.apps.example", label + "-080.apps.example",
		label + "-+80.apps.example", label + "-80-80.apps.example", label + ".apps.example.", "a." + label + ".apps.example", label[1:] + ".apps.example", "." + label + ".apps.example",
		"inst_" + label + ".apps.example", instance.UUID().String() + ".apps.example",
	} {
		if _, _, ok := a.Parse(host); ok {
			t.Errorf("%s is taken for an instance's", host)
		}
		if !a.Owns(host) {
			t.Errorf("the console would answer %s", host)
		}
	}
	for _, host := range []string{"cloud.example", "xapps.example", "apps.example.evil.test", "127.0.0.1:7480", "[::1]:7480", ""} {
		if a.Owns(host) {
			t.Errorf("the console would not answer %s", host)
		}
	}
	if (Apps{}).Owns("anything") || (Apps{}).Owns("") {
		t.Error("without a domain everything is the console's")
	}
}

func TestRelativeLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "/", "/": "/", "/lab": "/lab", "lab/tree?x=1#y": "/lab/tree?x=1#y", "/a b": "/a%20b",
		"//evil.test": "/", "/\\evil.test": "/", "\\\\evil.test": "/", "https://evil.test": "/https://evil.test", "/\tx": "/", "/\n/evil.test": "/",
		"///evil.test": "/", "/.tenon/enter?ticket=x": "/", "/x/../.tenon/enter": "/", "javascript:alert(1)": "/javascript:alert(1)",
	} {
		if got := relative(in); got != want {
			t.Errorf("%q leads to %q, want %q", in, got, want)
		}
	}
}

func TestForeignRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, headers string
		foreign         bool
	}{
		{"GET", "", false}, {"POST", "", false}, // no browser, or an old one
		{"POST", "Origin: https://me.apps.example", false}, {"POST", "Origin: https://other.apps.example", true}, {"POST", "Origin: null", true},
		{"POST", "Origin: https://me.apps.example:1", true}, {"DELETE", "Sec-Fetch-Site: same-site", true}, {"POST", "Sec-Fetch-Site: same-origin", false},
		{"GET", "Origin: https://other.apps.example|Upgrade: websocket", true}, {"GET", "Origin: https://me.apps.example|Upgrade: WebSocket", false},
		{"GET", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: no-cors|Sec-Fetch-Dest: script", true},
		{"GET", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", false},
		{"POST", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", true},
		{"GET", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: iframe", true},
		{"GET", "Sec-Fetch-Site: none|Sec-Fetch-Mode: navigate", false},
	} {
		r := &http.Request{Method: c.method, Host: "me.apps.example", Header: http.Header{}}
		for line := range strings.SplitSeq(c.headers, "|") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				r.Header.Set(name, value)
			}
		}
		if foreign(r) != c.foreign {
			t.Errorf("%s %s: foreign is %v", c.method, c.headers, !c.foreign)
		}
	}
}
