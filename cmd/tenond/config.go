package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// config is everything that the control plane is told, from the environment.
type config struct {
	CloudID         string     // TENON_CLOUD_ID: 8 hexadecimal digits
	StateDir        string     // TENON_STATE_DIR: the registry's blobs, the default master key
	DatabaseURL     string     // TENON_DATABASE_URL: as the owner of the tables, a URL or keywords; TENON_DATABASE_PASSWORD_FILE
	MasterKeyFile   string     // TENON_MASTER_KEY_FILE
	Listen          string     // TENON_LISTEN: console and API
	NodeListen      string     // TENON_NODE_LISTEN: the nodes' door
	NodeHosts       []string   // TENON_NODE_HOSTS: names and addresses in the door's certificate, by comma
	TLSCertFile     string     // TENON_TLS_CERT_FILE: needed when Listen is not this machine alone
	TLSKeyFile      string     // TENON_TLS_KEY_FILE
	InsecureHTTP    bool       // TENON_INSECURE_HTTP: a proxy in front speaks TLS
	ConsoleURL      *url.URL   // TENON_CONSOLE_URL: where browsers find the console; by default where it listens
	AppsDomain      string     // TENON_APPS_DOMAIN: below it each instance's web servers have a host of their own; by default apps.localhost on this machine alone, none elsewhere
	PeerListen      string     // TENON_PEER_LISTEN: the door for other replicas; none by default
	PeerAddress     string     // TENON_PEER_ADDRESS: as they reach it; by default where it listens
	PrivateRegistry bool       // TENON_ALLOW_PRIVATE_REGISTRIES: images may be added from registries at private addresses
	AdminEmail      string     // TENON_ADMIN_EMAIL: made on first boot
	AdminPassword   string     // TENON_ADMIN_PASSWORD_FILE, or TENON_ADMIN_PASSWORD: of that administrator
	LogFormat       string     // TENON_LOG_FORMAT: json or text
	LogLevel        slog.Level // TENON_LOG_LEVEL
}

var cloudIDForm = regexp.MustCompile(`^[0-9a-f]{8}$`)

// readConfig reads and checks all of it, and reports everything that is wrong.
func readConfig(getenv func(string) string) (config, error) {
	or := func(name, otherwise string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return otherwise
	}
	c := config{
		CloudID: getenv("TENON_CLOUD_ID"), StateDir: or("TENON_STATE_DIR", "/var/lib/tenon/control"), DatabaseURL: getenv("TENON_DATABASE_URL"),
		Listen: or("TENON_LISTEN", "127.0.0.1:7480"), NodeListen: or("TENON_NODE_LISTEN", "127.0.0.1:7481"),
		TLSCertFile: getenv("TENON_TLS_CERT_FILE"), TLSKeyFile: getenv("TENON_TLS_KEY_FILE"),
		AdminEmail: getenv("TENON_ADMIN_EMAIL"), AdminPassword: getenv("TENON_ADMIN_PASSWORD"),
		LogFormat: or("TENON_LOG_FORMAT", "json"),
	}
	c.MasterKeyFile = or("TENON_MASTER_KEY_FILE", filepath.Join(c.StateDir, "master.key"))
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	if c.DatabaseURL == "" {
		bad("TENON_DATABASE_URL is not set: postgres://USER:PASSWORD@HOST/DATABASE, as the owner of an empty database (`tenond dev` brings one of its own)")
	}
	if path := getenv("TENON_DATABASE_PASSWORD_FILE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			bad("TENON_DATABASE_PASSWORD_FILE: %v", err)
		}
		c.DatabaseURL = withPassword(c.DatabaseURL, strings.TrimSpace(string(text)))
	}
	if c.CloudID != "" && !cloudIDForm.MatchString(c.CloudID) {
		bad("TENON_CLOUD_ID is %q: it has 8 hexadecimal digits", c.CloudID)
	}
	for name, address := range map[string]string{"TENON_LISTEN": c.Listen, "TENON_NODE_LISTEN": c.NodeListen} {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			bad("%s is %q: it looks like 127.0.0.1:7480", name, address)
		}
	}
	c.InsecureHTTP = truth(getenv, "TENON_INSECURE_HTTP", bad)
	c.PrivateRegistry = truth(getenv, "TENON_ALLOW_PRIVATE_REGISTRIES", bad)
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		bad("TENON_TLS_CERT_FILE and TENON_TLS_KEY_FILE go together")
	} else if c.TLSCertFile != "" {
		if _, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSKeyFile); err != nil {
			bad("TENON_TLS_CERT_FILE: %v", err)
		}
	} else if !loopback(c.Listen) && !c.InsecureHTTP {
		bad("TENON_LISTEN is %s, which others can reach, and there is no TENON_TLS_CERT_FILE (or TENON_INSECURE_HTTP=true behind a proxy that speaks TLS)", c.Listen)
	}
	if path := getenv("TENON_ADMIN_PASSWORD_FILE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			bad("TENON_ADMIN_PASSWORD_FILE: %v", err)
		}
		c.AdminPassword = strings.TrimSpace(string(text))
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		bad("TENON_LOG_FORMAT is %q: json or text", c.LogFormat)
	}
	if err := c.LogLevel.UnmarshalText([]byte(or("TENON_LOG_LEVEL", "info"))); err != nil {
		bad("TENON_LOG_LEVEL is %q: debug, info, warn or error", getenv("TENON_LOG_LEVEL"))
	}
	c.NodeHosts = hosts(getenv("TENON_NODE_HOSTS"), c.NodeListen)
	c.readApps(getenv, bad)
	c.readPeer(getenv, bad)
	return c, errors.Join(wrong...)
}

// withPassword puts a password into a database address of either form.
func withPassword(address, password string) string {
	if u, err := url.Parse(address); err == nil && u.Scheme != "" {
		u.User = url.UserPassword(u.User.Username(), password)
		return u.String()
	}
	return address + " password='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password) + "'"
}

func truth(getenv func(string) string, name string, bad func(string, ...any)) bool {
	text := getenv(name)
	if text == "" {
		return false
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		bad("%s is %q: true or false", name, text)
	}
	return v
}

// hosts are the names for the door's certificate: those given, and the one that
// is listened on.
func hosts(given, listen string) []string {
	var out []string
	for _, h := range strings.Split(given, ",") {
		if h = strings.TrimSpace(h); h != "" {
			out = append(out, h)
		}
	}
	host, _, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		out = append(out, host)
	}
	if len(out) == 0 {
		out = append(out, "localhost")
		if name, err := os.Hostname(); err == nil {
			out = append(out, name)
		}
	}
	return out
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

var keywordPassword = regexp.MustCompile(`(?i)(password\s*=\s*)('(\\.|[^'\\])*'|\S+)`)

// LogValue shows the configuration without its secrets.
func (c config) LogValue() slog.Value {
	database := keywordPassword.ReplaceAllString(c.DatabaseURL, "${1}xxxxx")
	if u, err := url.Parse(c.DatabaseURL); err == nil && u.Scheme != "" {
		database = u.Redacted()
	}
	password := "none"
	if c.AdminPassword != "" {
		password = "given"
	}
	return slog.GroupValue(
		slog.String("cloud_id", c.CloudID), slog.String("state_dir", c.StateDir), slog.String("database", database),
		slog.String("master_key_file", c.MasterKeyFile), slog.String("listen", c.Listen), slog.String("node_listen", c.NodeListen),
		slog.Any("node_hosts", c.NodeHosts), slog.Any("console", c.ConsoleURL), slog.String("apps_domain", c.AppsDomain), slog.String("peer_address", c.PeerAddress), slog.Bool("tls", c.TLSCertFile != ""), slog.Bool("insecure_http", c.InsecureHTTP),
		slog.Bool("private_registries", c.PrivateRegistry), slog.String("admin_email", c.AdminEmail), slog.String("admin_password", password),
	)
}

// logger writes to standard error.
func (c config) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}
