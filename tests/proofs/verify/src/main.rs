//! Verifies an image's signature by a public key with Sigstore's own library: `verify IMAGE KEY`.

use sigstore::cosign::verification_constraint::{PublicKeyVerifier, VerificationConstraintVec};
use sigstore::cosign::{verify_constraints, ClientBuilder, CosignCapabilities};
use sigstore::registry::{Auth, ClientConfig, ClientProtocol, OciReference};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let image: OciReference = words[1].parse()?;
    let config = ClientConfig { protocol: ClientProtocol::Http, ..Default::default() };
    let mut client = ClientBuilder::default().with_oci_client_config(config).build()?;
    let layers = client.trusted_signature_layers(&Auth::Anonymous, &image).await?;
    let key: VerificationConstraintVec = vec![Box::new(PublicKeyVerifier::try_from(&std::fs::read(&words[2])?)?)];
    verify_constraints(&layers, key.iter()).map_err(|error| error.to_string())?;
    println!("{}", layers.iter().map(|one| one.simple_signing.to_string()).collect::<Vec<_>>().join("\n"));
    Ok(())
}
