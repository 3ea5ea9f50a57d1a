module github.com/echoseal/echoseal/codec/localkek

go 1.26.0

require (
	github.com/echoseal/echoseal v0.1.0
	golang.org/x/crypto v0.59.0
)

require golang.org/x/sys v0.50.0 // indirect
