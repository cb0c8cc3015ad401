package nostr

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"pgregory.net/rapid"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func secret(t *testing.T, text string) *btcec.PrivateKey {
	t.Helper()
	key, err := parseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestVectors are from NIP-44's own file of them.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct{ secret1, secret2, conversation, nonce, text, payload string }{
		{"0000000000000000000000000000000000000000000000000000000000000001", "0000000000000000000000000000000000000000000000000000000000000002",
			"c41c775356fd92eadc63ff5a0dc1da211b268cbea22316767095b2871ea1412d", "0000000000000000000000000000000000000000000000000000000000000001", "a",
			"AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABee0G5VSK0/9YypIObAtDKfYEAjD35uVkHyB0F4DwrcNaCXlCWZKaArsGrY6M9wnuTMxWfp1RTN9Xga8no+kF5Vsb"},
		{"0000000000000000000000000000000000000000000000000000000000000002", "0000000000000000000000000000000000000000000000000000000000000001",
			"c41c775356fd92eadc63ff5a0dc1da211b268cbea22316767095b2871ea1412d", "f00000000000000000000000000000f00000000000000000000000000000000f", "🍕🫃",
			"AvAAAAAAAAAAAAAAAAAAAPAAAAAAAAAAAAAAAAAAAAAPSKSK6is9ngkX2+cSq85Th16oRTISAOfhStnixqZziKMDvB0QQzgFZdjLTPicCJaV8nDITO+QfaQ61+KbWQIOO2Yj"},
		{"5c0c523f52a5b6fad39ed2403092df8cebc36318b39383bca6c00808626fab3a", "4b22aa260e4acb7021e32f38a6cdf4b673c6a277755bfce287e370c924dc936d",
			"3e2b52a63be47d34fe0a80e34e73d436d6963bc8f39827f327057a9986c20a45", "b635236c42db20f021bb8d1cdff5ca75dd1a0cc72ea742ad750f33010b24f73b",
			"表ポあA鷗ŒéＢ逍Üßªąñ丂㐀𠀀",
			"ArY1I2xC2yDwIbuNHN/1ynXdGgzHLqdCrXUPMwELJPc7s7JqlCMJBAIIjfkpHReBPXeoMCyuClwgbT419jUWU1PwaNl4FEQYKCDKVJz+97Mp3K+Q2YGa77B6gpxB/lr1QgoqpDf7wDVrDmOqGoiPjWDqy8KzLueKDcm9BVP8xeTJIxs="},
	} {
		conversation, err := conversationKey(btcec.GenerateSharedSecret(secret(t, v.secret1), secret(t, v.secret2).PubKey()))
		if err != nil || hex.EncodeToString(conversation) != v.conversation {
			t.Errorf("the conversation's key is %x, want %s; error %v", conversation, v.conversation, err)
		}
		payload, err := encrypt44(v.text, conversation, [32]byte(unhex(t, v.nonce)))
		if err != nil || payload != v.payload {
			t.Errorf("%q is encrypted as %s, want %s; error %v", v.text, payload, v.payload, err)
		}
		if text, err := decrypt44(v.payload, conversation); err != nil || text != v.text {
			t.Errorf("%s is decrypted as %q, want %q; error %v", v.payload, text, v.text, err)
		}
	}
	for n, want := range map[int]int{1: 32, 16: 32, 32: 32, 33: 64, 37: 64, 64: 64, 65: 96, 100: 128, 200: 224, 250: 256, 320: 320, 383: 384, 384: 384,
		400: 448, 500: 512, 512: 512, 515: 640, 700: 768, 800: 896, 900: 1024, 1020: 1024, 65515: 65536} {
		if got := padded44(n); got != want {
			t.Errorf("%d bytes are padded to %d, want %d", n, got, want)
		}
	}
}

// TestOldVector is what another implementation of NIP-04 wrote.
func TestOldVector(t *testing.T) {
	t.Parallel()
	alice := secret(t, "92996316beebf94171065a714cbf164d1f56d7ad9b35b329d9fc97535bf25352")
	bob := secret(t, "591c0c249adfb9346f8d37dfeed65725e2eea1d7a6e99fa503342f367138de84")
	if text, err := NIP04.Decrypt("A+fRnU4aXS4kbTLfowqAww==?iv=QFYUrl5or/n/qamY79ze0A==", alice, bob.PubKey()); err != nil || text != "hello" {
		t.Errorf("decrypted as %q, error %v", text, err)
	}
}

// TestForgeriesAreRefused has NIP-44's own examples of payloads that must not be decrypted, and nonsense.
func TestForgeriesAreRefused(t *testing.T) {
	t.Parallel()
	for _, v := range []struct{ why, conversation, payload string }{
		{"an unknown encoding", "ca2527a037347b91bea0c8a30fc8d9600ffd81ec00038671e3a0f0cb0fc9f642",
			"#Atqupco0WyaOW2IGDKcshwxI9xO8HgD/P8Ddt46CbxDbrhdG8VmJdU0MIDf06CUvEvdnr1cp1fiMtlM/GrE92xAc1K5odTpCzUB+mjXgbaqtntBUbTToSUoT0ovrlPwzGjyp"},
		{"an unknown version", "36f04e558af246352dcf73b692fbd3646a2207bd8abd4b1cd26b234db84d9481",
			"AK1AjUvoYW3IS7C/BGRUoqEC7ayTfDUgnEPNeWTF/reBZFaha6EAIRueE9D1B1RuoiuFScC0Q94yjIuxZD3JStQtE8JMNacWFs9rlYP+ZydtHhRucp+lxfdvFlaGV/sQlqZz"},
		{"no base64", "ca2527a037347b91bea0c8a30fc8d9600ffd81ec00038671e3a0f0cb0fc9f642",
			"Atфupco0WyaOW2IGDKcshwxI9xO8HgD/P8Ddt46CbxDbrhdG8VmJZE0UICD06CUvEvdnr1cp1fiMtlM/GrE92xAc1EwsVCQEgWEu2gsHUVf4JAa3TpgkmFc3TWsax0v6n/Wq"},
		{"a wrong authentication", "cff7bd6a3e29a450fd27f6c125d5edeb0987c475fd1e8d97591e0d4d8a89763c",
			"Agn/l3ULCEAS4V7LhGFM6IGA17jsDUaFCKhrbXDANholyySBfeh+EN8wNB9gaLlg4j6wdBYh+3oK+mnxWu3NKRbSvQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		{"another wrong authentication", "cfcc9cf682dfb00b11357f65bdc45e29156b69db424d20b3596919074f5bf957",
			"AmWxSwuUmqp9UsQX63U7OQ6K1thLI69L7G2b+j4DoIr0oRWQ8avl4OLqWZiTJ10vIgKrNqjoaX+fNhE9RqmR5g0f6BtUg1ijFMz71MO1D4lQLQfW7+UHva8PGYgQ1QpHlKgR"},
		{"a wrong padding", "5254827d29177622d40a7b67cad014fe7137700c3c523903ebbe3e1b74d40214",
			"Anq2XbuLvCuONcr7V0UxTh8FAyWoZNEdBHXvdbNmDZHB573MI7R7rrTYftpqmvUpahmBC2sngmI14/L0HjOZ7lWGJlzdh6luiOnGPc46cGxf08MRC4CIuxx3i2Lm0KqgJ7vA"},
		{"a length beyond the padding", "fea39aca9aa8340c3a78ae1f0902aa7e726946e4efcd7783379df8096029c496",
			"An1Cg+O1TIhdav7ogfSOYvCj9dep4ctxzKtZSniCw5MwRrrPJFyAQYZh5VpjC2QYzny5LIQ9v9lhqmZR4WBYRNJ0ognHVNMwiFV1SHpvUFT8HHZN/m/QarflbvDHAtO6pY16"},
		{"a length of zero", "0c4cffb7a6f7e706ec94b2e879f1fc54ff8de38d8db87e11787694d5392d5b3f",
			"Am+f1yZnwnOs0jymZTcRpwhDRHTdnrFcPtsBzpqVdD6b2NZDaNm/TPkZGr75kbB6tCSoq7YRcbPiNfJXNch3Tf+o9+zZTMxwjgX/nm3yDKR2kHQMBhVleCB9uPuljl40AJ8kXRD0gjw+aYRJFUMK9gCETZAjjmrsCM+nGRZ1FfNsHr6Z"},
		{"nothing", "5cd2d13b9e355aeb2452afbd3786870dbeecb9d355b12cb0a3b6e9da5744cd35", ""},
	} {
		if text, err := decrypt44(v.payload, unhex(t, v.conversation)); err == nil {
			t.Errorf("%s was decrypted, as %q", v.why, text)
		}
	}
	for _, content := range []string{"", "?iv=", "AAAA?iv=AAAA", "AAAAAAAAAAAAAAAAAAAAAA==?iv=AAAA", "AAAAAAAAAAAAAAAAAAAAAA==", "x?iv=AAAAAAAAAAAAAAAAAAAAAA=="} {
		if text, err := decrypt04(content, make([]byte, 32)); err == nil {
			t.Errorf("%q was decrypted, as %q", content, text)
		}
	}
}

// What one encrypts the other decrypts, and nobody else; a payload of NIP-44 that was touched is refused.
func TestEncryption(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := make([]*btcec.PrivateKey, 3)
		for i := range keys {
			key, err := btcec.NewPrivateKey()
			if err != nil {
				t.Fatal(err)
			}
			keys[i] = key
		}
		alice, bob, eve := keys[0], keys[1], keys[2]
		text := rapid.StringN(1, 300, 2000).Draw(t, "text")
		for _, e := range []Encryption{NIP04, NIP44} {
			content, err := e.Encrypt(text, alice, bob.PubKey())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(content, text) && len(text) > 3 {
				t.Fatalf("%s shows the text: %s", e, content)
			}
			if got, err := e.Decrypt(content, bob, alice.PubKey()); err != nil || got != text {
				t.Fatalf("%s: %q became %q, error %v", e, text, got, err)
			}
			if got, err := e.Decrypt(content, eve, alice.PubKey()); err == nil && (e == NIP44 || got == text) {
				t.Fatalf("%s: somebody else read %q", e, got)
			}
		}
		content, err := NIP44.Encrypt(text, alice, bob.PubKey())
		if err != nil {
			t.Fatal(err)
		}
		touched := []byte(content)
		at := rapid.IntRange(4, len(touched)-5).Draw(t, "at")
		if touched[at] = 'A'; touched[at] == content[at] {
			touched[at] = 'B'
		}
		if got, err := NIP44.Decrypt(string(touched), bob, alice.PubKey()); err == nil {
			t.Fatalf("touched at %d it was read, as %q", at, got)
		}
	})
}
