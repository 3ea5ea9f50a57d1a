package awskms_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/echoseal/echoseal/codec/awskms"
	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

// isolate keeps the AWS configuration of whoever runs the tests out, and returns the
// directory in which a test can have its own.
func isolate(t *testing.T) string {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return dir
}

// login puts the credentials of the fake's administrator in the environment.
func login(t *testing.T) string {
	t.Helper()
	dir := isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", kmsfake.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret-access-key")
	return dir
}

const someKey = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"

func TestURIErrors(t *testing.T) {
	isolate(t)
	for uri, want := range map[string]string{
		"":                             "awskms:///KEY",
		"awskms:":                      "no key",
		"awskms:///":                   "no key",
		"awskms:alias/x":               "awskms:///KEY",
		"gcpkms:///" + someKey:         "awskms:///KEY",
		"awskms:///" + someKey + "#":   "", // an empty fragment is none
		"awskms:///" + someKey + "#x":  "awskms:///KEY",
		"awskms://alias/x":             "three slashes",
		"awskms://localhost:4566/1234": "three slashes",
		"awskms://" + someKey:          "awskms:///KEY",
		"awskms://u:canary@h/1234":     "awskms:///KEY",
		"awskms:///%zz":                "awskms:///KEY",
		"awskms:///1234":               "no region",
		"awskms:///alias/x":            "no region",
		"awskms:///alias/":             "neither",
		"awskms:///key/1234":           "neither",
		"awskms:///a/b":                "neither",
		"awskms:///1234:5":             "neither",
		"awskms:///arn:aws:kms":        "sections",
		"awskms:///arn:aws:s3:eu-west-1:111122223333:key/1":     "not the ARN of a KMS key",
		"awskms:///arn:aws:kms::111122223333:key/1":             "not the ARN of a KMS key",
		"awskms:///arn:aws:kms:eu-west-1::key/1":                "not the ARN of a KMS key",
		"awskms:///arn:aws:kms:eu-west-1:111122223333:grant/1":  "not the ARN of a KMS key",
		"awskms:///arn:aws:kms:eu-west-1:111122223333:key/":     "not the ARN of a KMS key",
		"awskms:///arn:aws:kms:eu-west-1:111122223333:key/1/2":  "not the ARN of a KMS key",
		"awskms:///" + someKey + "?region=us-east-1":            "us-east-1",
		"awskms:///" + someKey + "?Region=eu-west-1":            `"Region" is unknown`,
		"awskms:///" + someKey + "?region=":                     `"region" is unknown, empty`,
		"awskms:///" + someKey + "?region=a&region=b":           "twice",
		"awskms:///" + someKey + "?a=%zz":                       "the query is malformed",
		"awskms:///" + someKey + "?endpoint=kms.example.com":    "https://HOST:PORT",
		"awskms:///" + someKey + "?endpoint=http://example.com": "not https",
		"awskms:///" + someKey + "?endpoint=ftp://127.0.0.1":    "not https",
		"awskms:///" + someKey + "?endpoint=https://u:canary@h": "https://HOST:PORT",
		"awskms:///" + someKey + "?profile=nobody":              "nobody",
		"awskms:///" + someKey + "?secret-access-key=canary":    `"secret-access-key" is unknown`,
		"awskms://u:canary@/" + someKey:                         "of the form",
		"awskms://canary/" + someKey:                            "names a host",
		"awskms:///" + someKey + "?endpoint=http://a.localhost": "not https",
		"awskms:///" + someKey + "?regoin=x&a=canary%zz":        "the query is malformed",
	} {
		_, err := awskms.Open(t.Context(), uri)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", uri, err)
			}
			continue
		}
		if !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want a configuration error that says %q", uri, err, want)
		}
	}
	if _, err := awskms.Open(t.Context()); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("no URI: %v", err)
	}
	// The conflict names both regions.
	_, err := awskms.Open(t.Context(), "awskms:///"+someKey+"?region=us-east-1")
	if !strings.Contains(err.Error(), "eu-west-1") || !strings.Contains(err.Error(), "us-east-1") {
		t.Errorf("%v does not name both regions", err)
	}
}

func TestNewErrors(t *testing.T) {
	client := kms.New(kms.Options{Region: home})
	abroad := strings.Replace(someKey, home, "us-east-1", 1)
	for name, c := range map[string]struct {
		client *kms.Client
		keys   []string
		want   []string
	}{
		"no client":      {nil, []string{someKey}, []string{"no client"}},
		"no key":         {client, nil, []string{"no key"}},
		"empty key":      {client, []string{""}, []string{"no key"}},
		"alias":          {client, []string{"alias/echoseal"}, []string{"alias/echoseal", "Open"}},
		"alias ARN":      {client, []string{"arn:aws:kms:eu-west-1:111122223333:alias/x"}, []string{"alias/x", "Open"}},
		"key id":         {client, []string{"1234"}, []string{"1234", "Open"}},
		"another region": {client, []string{someKey, abroad}, []string{"us-east-1", home, abroad}},
		"two regions":    {kms.New(kms.Options{}), []string{someKey, abroad}, []string{"us-east-1", home, abroad}},
		"FIPS elsewhere": {kms.New(kms.Options{Region: home, BaseEndpoint: aws.String("https://kms.example.com"), EndpointOptions: kms.EndpointResolverOptions{UseFIPSEndpoint: aws.FIPSEndpointStateEnabled}}), []string{someKey}, []string{"FIPS", "https://kms.example.com"}},
	} {
		_, err := awskms.New(c.client, c.keys...)
		if !errors.Is(err, keyset.ErrConfig) {
			t.Errorf("%s: %v, want a configuration error", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
	}
}

// The ARN of every partition is one, and so is what follows awskms://.
func TestPartitions(t *testing.T) {
	for partition, region := range map[string]string{
		"aws": "eu-west-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1", "aws-iso": "us-iso-east-1",
		"aws-iso-b": "us-isob-east-1", "aws-iso-e": "eu-isoe-west-1", "aws-iso-f": "us-isof-south-1", "aws-eusc": "eusc-de-east-1",
	} {
		key := "arn:" + partition + ":kms:" + region + ":111122223333:key/1234"
		for _, text := range []string{key, "/" + key} {
			s, err := awskms.New(kms.New(kms.Options{Region: region}), text)
			if err != nil || !s.Opens("awskms:///"+key) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// The ARN says which region is called, whatever the environment says, and one endpoint
// takes all calls.
func TestOpenByARN(t *testing.T) {
	login(t)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1") // nobody is there
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})

	s, err := awskms.Open(t.Context(), "awskms:///"+key+"?endpoint="+fake.URL)
	if err != nil {
		t.Fatal(err)
	}
	if len(fake.Seen()) > 0 {
		t.Errorf("opening an ARN made the calls %v, want none", fake.Seen())
	}
	_, w, err := s.Generate(t.Context(), secretContext)
	if err != nil {
		t.Fatal(err)
	}
	wrap(t, s, []byte("data key"))
	if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
		t.Error(err)
	}
	if _, err := s.Rewrap(t.Context(), w, secretContext); err != nil {
		t.Error(err)
	}
	if d, err := s.Describe(t.Context()); err != nil || d[0].Err != nil {
		t.Error(d, err)
	}
	for _, operation := range []string{"Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey", "ReEncrypt"} {
		if n := fake.Calls(operation); n != 1 {
			t.Errorf("the endpoint took %d calls of %s, want 1", n, operation)
		}
	}
	for _, call := range fake.Seen() {
		if call.Region != home {
			t.Errorf("call %+v, want the region of the ARN", call)
		}
	}
}

func TestEndpointOfTheEnvironment(t *testing.T) {
	login(t)
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})
	t.Setenv("AWS_ENDPOINT_URL_KMS", fake.URL)
	s, err := awskms.Open(t.Context(), "awskms:///"+key)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Generate(t.Context(), secretContext); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_USE_FIPS_ENDPOINT", "true")
	if _, err := awskms.Open(t.Context(), "awskms:///"+key); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), "FIPS") {
		t.Errorf("%v, want FIPS together with an endpoint to be refused", err)
	}
}

// An alias is looked up once. Moving it changes nothing.
func TestOpenByName(t *testing.T) {
	dir := login(t)
	fake := kmsfake.Start(t)
	key, next := fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{})
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte("[profile ops]\nregion = "+home+"\naws_access_key_id = "+kmsfake.AccessKey+"\naws_secret_access_key = canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := key[strings.LastIndex(key, "/")+1:]
	for name, uri := range map[string]string{
		"alias":          "alias/team/echoseal?region=" + home,
		"alias ARN":      "arn:aws:kms:eu-west-1:111122223333:alias/team/echoseal",
		"key id":         id + "?region=" + home,
		"region, shared": "alias/team/echoseal?profile=ops",
	} {
		t.Run(name, func(t *testing.T) {
			fake.SetAlias("alias/team/echoseal", key)
			calls := fake.Calls("DescribeKey")
			separator := map[bool]string{true: "&", false: "?"}[strings.Contains(uri, "?")]
			s, err := awskms.Open(t.Context(), "awskms:///"+uri+separator+"endpoint="+fake.URL)
			if err != nil {
				t.Fatal(err)
			}
			w := wrap(t, s, []byte("data key"))
			fake.SetAlias("alias/team/echoseal", next)
			if w2 := wrap(t, s, []byte("data key")); w.Service != "awskms:///"+key || w2.Service != w.Service || !s.Opens(w.Service) {
				t.Errorf("wrapped by %s and %s, want %s", w.Service, w2.Service, key)
			}
			if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
				t.Error(err)
			}
			if n := fake.Calls("DescribeKey") - calls; n != 1 {
				t.Errorf("%d look-ups, want 1", n)
			}
		})
	}
}

func TestLookUpFails(t *testing.T) {
	login(t)
	fake := kmsfake.Start(t)
	open := func(ctx context.Context, key string) error {
		_, err := awskms.Open(ctx, "awskms:///"+key+"?region="+home+"&endpoint="+fake.URL)
		return err
	}
	wantError(t, open(t.Context(), "alias/absent"), keyset.NotFound, "alias/absent", "kms:DescribeKey")
	wantError(t, open(t.Context(), "1234"), keyset.NotFound, "1234", "kms:DescribeKey")

	rsa := fake.AddKey(kmsfake.Key{Spec: "RSA_2048", Usage: "SIGN_VERIFY"})
	fake.SetAlias("alias/rsa", rsa)
	wantError(t, open(t.Context(), "alias/rsa"), keyset.WrongKey, rsa, "kms:DescribeKey")

	for _, answer := range []string{"alias/echoseal", "arn:aws:kms:us-east-1:111122223333:key/1", "arn:aws:s3:eu-west-1:111122223333:key/1", someKey} {
		fake.Fail("DescribeKey", kmsfake.Fault{KeyID: answer})
		key := rsa[strings.LastIndex(rsa, "/")+1:]
		wantError(t, open(t.Context(), key), keyset.Unavailable, key, "kms:DescribeKey")
	}

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	fake.Fail("DescribeKey", kmsfake.Fault{Hang: true})
	start := time.Now()
	wantError(t, open(ctx, "alias/rsa"), keyset.Unavailable, "alias/rsa", "kms:DescribeKey")
	if took := time.Since(start); took > 1100*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}

func TestOpener(t *testing.T) {
	isolate(t)
	services, err := keyset.Openers{awskms.Opener()}.Open(t.Context(), "AWSKMS:///"+someKey)
	if err != nil || !services.Opens("awskms:///"+someKey) {
		t.Errorf("%v, %v", services, err)
	}
	if services, err := (keyset.Openers{awskms.Opener()}).Open(t.Context(), "awskms:///"); !errors.Is(err, keyset.ErrConfig) || services != nil {
		t.Errorf("%v, %v", services, err)
	}
}
