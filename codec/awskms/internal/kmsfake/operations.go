package kmsfake

import (
	"slices"
	"strconv"
	"time"
)

// input holds the members of all requests.
type input struct {
	KeyID             string            `json:"KeyId"`
	Plaintext         []byte            `json:"Plaintext"`
	CiphertextBlob    []byte            `json:"CiphertextBlob"`
	EncryptionContext map[string]string `json:"EncryptionContext"`
	KeySpec           string            `json:"KeySpec"`

	SourceKeyID                  string            `json:"SourceKeyId"`
	DestinationKeyID             string            `json:"DestinationKeyId"`
	SourceEncryptionContext      map[string]string `json:"SourceEncryptionContext"`
	DestinationEncryptionContext map[string]string `json:"DestinationEncryptionContext"`
}

// A request is a call of a known caller, with the lock of the service held.
type request struct {
	*Service
	caller    *Caller
	region    string
	operation string
}

var operations = map[string]func(*request, *input) (*fault, map[string]any){
	"Decrypt":         decrypt,
	"DescribeKey":     describeKey,
	"Encrypt":         encrypt,
	"GenerateDataKey": generateDataKey,
	"ReEncrypt":       reEncrypt,
}

// use returns the key that a KeyId means, if the caller may use it for this and it can
// be.
func (r *request) use(keyID, permission string) (*Key, *fault) {
	k, f := r.find(r.region, keyID)
	if f == nil {
		f = r.allow(k, permission)
	}
	if f == nil {
		f = k.usable(r.operation)
	}
	return k, f
}

func (r *request) allow(k *Key, permission string) *fault {
	if r.caller.Allow == nil || slices.Contains(r.caller.Allow, permission) {
		return nil
	}
	return failure("AccessDeniedException", "User: arn:aws:iam::"+Account+":user/tester is not authorized to perform: "+permission+" on resource: "+k.ARN()+" because no identity-based policy allows the "+permission+" action")
}

// open decrypts a ciphertext. Without a key id, the key is the one that made it.
func (r *request) open(keyID, permission string, ciphertext []byte, encryptionContext map[string]string) (*Key, []byte, *fault) {
	if f := checkLength("ciphertextBlob", ciphertext, 6144); f != nil {
		return nil, nil, f
	}
	maker := r.maker(r.region, ciphertext)
	if keyID == "" {
		if maker == nil {
			return nil, nil, failure("InvalidCiphertextException", "")
		}
		keyID = maker.ARN()
	}
	k, f := r.use(keyID, permission)
	switch {
	case f != nil:
		return nil, nil, f
	case maker != nil && maker != k:
		return nil, nil, failure("IncorrectKeyException", "The key ID in the request does not identify a CMK that can perform this operation.")
	case maker == nil:
		return nil, nil, failure("InvalidCiphertextException", "")
	}
	plaintext, ok := k.decrypt(ciphertext, encryptionContext)
	if !ok {
		return nil, nil, failure("InvalidCiphertextException", "")
	}
	return k, plaintext, nil
}

func checkLength(name string, value []byte, limit int) *fault {
	switch {
	case len(value) == 0:
		return failure("ValidationException", "1 validation error detected: Value at '"+name+"' failed to satisfy constraint: Member must have length greater than or equal to 1")
	case len(value) > limit:
		return failure("ValidationException", "1 validation error detected: Value at '"+name+"' failed to satisfy constraint: Member must have length less than or equal to "+strconv.Itoa(limit))
	}
	return nil
}

func encrypt(r *request, in *input) (*fault, map[string]any) {
	if f := checkLength("plaintext", in.Plaintext, 4096); f != nil {
		return f, nil
	}
	k, f := r.use(in.KeyID, "kms:Encrypt")
	if f != nil {
		return f, nil
	}
	r.secrets = append(r.secrets, in.Plaintext)
	return nil, map[string]any{
		"KeyId":               k.ARN(),
		"CiphertextBlob":      encode(k.encrypt(in.Plaintext, in.EncryptionContext)),
		"EncryptionAlgorithm": "SYMMETRIC_DEFAULT",
	}
}

func generateDataKey(r *request, in *input) (*fault, map[string]any) {
	if in.KeySpec != "AES_256" {
		return failure("ValidationException", "Please specify either number of bytes or key spec."), nil
	}
	k, f := r.use(in.KeyID, "kms:GenerateDataKey")
	if f != nil {
		return f, nil
	}
	plaintext := random(32)
	r.secrets = append(r.secrets, plaintext)
	return nil, map[string]any{
		"KeyId":          k.ARN(),
		"Plaintext":      encode(plaintext),
		"CiphertextBlob": encode(k.encrypt(plaintext, in.EncryptionContext)),
	}
}

func decrypt(r *request, in *input) (*fault, map[string]any) {
	k, plaintext, f := r.open(in.KeyID, "kms:Decrypt", in.CiphertextBlob, in.EncryptionContext)
	if f != nil {
		return f, nil
	}
	r.secrets = append(r.secrets, plaintext)
	return nil, map[string]any{
		"KeyId":               k.ARN(),
		"Plaintext":           encode(plaintext),
		"EncryptionAlgorithm": "SYMMETRIC_DEFAULT",
	}
}

func reEncrypt(r *request, in *input) (*fault, map[string]any) {
	source, plaintext, f := r.open(in.SourceKeyID, "kms:ReEncryptFrom", in.CiphertextBlob, in.SourceEncryptionContext)
	if f != nil {
		return f, nil
	}
	k, f := r.use(in.DestinationKeyID, "kms:ReEncryptTo")
	if f != nil {
		return f, nil
	}
	return nil, map[string]any{
		"KeyId":                          k.ARN(),
		"SourceKeyId":                    source.ARN(),
		"CiphertextBlob":                 encode(k.encrypt(plaintext, in.DestinationEncryptionContext)),
		"SourceEncryptionAlgorithm":      "SYMMETRIC_DEFAULT",
		"DestinationEncryptionAlgorithm": "SYMMETRIC_DEFAULT",
	}
}

func describeKey(r *request, in *input) (*fault, map[string]any) {
	k, f := r.find(r.region, in.KeyID)
	if f == nil {
		f = r.allow(k, "kms:DescribeKey")
	}
	if f != nil {
		return f, nil
	}
	metadata := map[string]any{
		"AWSAccountId":         Account,
		"Arn":                  k.ARN(),
		"CreationDate":         1.7646336e9,
		"Enabled":              k.State == "Enabled",
		"EncryptionAlgorithms": []string{"SYMMETRIC_DEFAULT"},
		"KeyId":                k.id,
		"KeyManager":           "CUSTOMER",
		"KeySpec":              k.Spec,
		"KeyState":             k.State,
		"KeyUsage":             k.Usage,
		"MultiRegion":          k.MultiRegion,
		"Origin":               "AWS_KMS",
	}
	if k.State == "PendingDeletion" {
		metadata["DeletionDate"] = seconds(time.Now().Add(7 * 24 * time.Hour))
	}
	if !k.ValidTo.IsZero() {
		metadata["Origin"] = "EXTERNAL"
		metadata["ExpirationModel"] = "KEY_MATERIAL_EXPIRES"
		metadata["ValidTo"] = seconds(k.ValidTo)
	}
	return nil, map[string]any{"KeyMetadata": metadata}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
