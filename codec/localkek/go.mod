module github.com/echoseal/echoseal/codec/localkek

go 1.26.0

require github.com/echoseal/echoseal v0.1.0
