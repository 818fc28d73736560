package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func env(pairs ...string) func(string) string {
	m := map[string]string{"TENON_DATABASE_URL": "postgres://tenon_owner:hunter2@db/tenon"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func TestConfigReportsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := readConfig(env("TENON_DATABASE_URL", "", "TENON_CLOUD_ID", "XYZ", "TENON_LISTEN", "nowhere", "TENON_LOG_LEVEL", "loud", "TENON_INSECURE_HTTP", "perhaps"))
	if err == nil {
		t.Fatal("a configuration full of mistakes was accepted")
	}
	for _, name := range []string{"TENON_DATABASE_URL", "TENON_CLOUD_ID", "TENON_LISTEN", "TENON_LOG_LEVEL", "TENON_INSECURE_HTTP"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in:\n%v", name, err)
		}
	}
}

func TestConfigListensInTheOpenOnlyWithTLS(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "0.0.0.0:1": false, ":1": false, "192.0.2.1:1": false} {
		if _, err := readConfig(env("TENON_LISTEN", address)); (err == nil) != ok {
			t.Errorf("%s without TLS: %v", address, err)
		}
	}
	if _, err := readConfig(env("TENON_LISTEN", "0.0.0.0:1", "TENON_INSECURE_HTTP", "true")); err != nil {
		t.Errorf("behind a proxy: %v", err)
	}
}

func TestConfigIsPrintedWithoutSecrets(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("s3cret'\\word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, getenv := range []func(string) string{
		env("TENON_ADMIN_EMAIL", "a@b", "TENON_ADMIN_PASSWORD", "hunter2"),
		env("TENON_DATABASE_URL", "host=db user=tenon_owner password=hunter2"),
		env("TENON_DATABASE_URL", "host=db user=tenon_owner password='hunter2 with space'"),
		env("TENON_DATABASE_URL", "host=db user=tenon_owner", "TENON_DATABASE_PASSWORD_FILE", secret),
		env("TENON_DATABASE_URL", "postgres://tenon_owner@db/tenon", "TENON_DATABASE_PASSWORD_FILE", secret),
	} {
		c, err := readConfig(getenv)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("starts", "config", c)
		for _, s := range []string{"hunter2", "with space", "s3cret", "word\""} {
			if strings.Contains(out.String(), s) {
				t.Errorf("the log shows %q: %s", s, out.String())
			}
		}
		if !strings.Contains(out.String(), "tenon_owner") {
			t.Errorf("the log does not say which database: %s", out.String())
		}
		if rolePassword(c, nil) == nil && strings.Contains(c.DatabaseURL, "assword") {
			t.Error("the other roles get no password although the owner has one")
		}
	}
	if c, err := readConfig(env("TENON_DATABASE_URL", "host=/run/tenon-1/pg dbname=tenon user=tenon_owner")); err != nil || rolePassword(c, nil) != nil {
		t.Errorf("on a private socket the operating system says who is who (%v)", err)
	}
}
