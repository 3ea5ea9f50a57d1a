module github.com/echoseal/echoseal/bench

go 1.26.0

require (
	aidanwoods.dev/go-paseto v1.6.0
	github.com/echoseal/echoseal v0.1.0
	github.com/echoseal/echoseal/middleware/gosdk v0.1.0
	github.com/fernet/fernet-go v0.0.0-20240119011108-303da6aec611
	github.com/go-jose/go-jose/v4 v4.1.9
	github.com/gorilla/securecookie v1.1.2
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/tink-crypto/tink-go/v2 v2.9.0
	golang.org/x/crypto v0.59.0
)

require (
	aidanwoods.dev/go-result v0.3.1 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
