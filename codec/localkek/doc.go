package localkek
