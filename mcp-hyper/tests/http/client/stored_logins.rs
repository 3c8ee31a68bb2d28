//! Logins that one instance of a web application begins and another finishes. Row F109.

use std::pin::pin;

use mcp_hyper::auth::{
    AuthConfig, AuthDriver, AuthHandle, Authorization, LoginError, MemoryStore, Redirect, SealKey,
    SealedLogin, Sealer, Secret,
};
use mcp_hyper::mcp_proto::auth::client::{AuthError, FinishError, Grant};
use smol::future::{poll_once, zip};

use super::auth::{noninteractive_login, stored_login};
use crate::common::auth_testbed::{AuthTestbed, visit};
use crate::common::client::{call, connect, modern, run};
use crate::common::runtime::within;

const SESSION: &str = "the id of a web session";

/// The keys that all instances share.
fn keys() -> Sealer {
    Sealer::new(SealKey::new([7; 32]), [])
}

/// A new instance, which has nothing but the keys and the store.
fn instance(store: &MemoryStore, testbed: &AuthTestbed) -> (AuthHandle, AuthDriver) {
    let authorization = noninteractive_login().store(store.clone());
    modern().authorization(authorization).authorize(testbed.url()).unwrap()
}

async fn begin(store: &MemoryStore, testbed: &AuthTestbed) -> Result<SealedLogin, LoginError> {
    let (auth, driver) = instance(store, testbed);
    within(driver.run_until(auth.begin_login(&keys(), SESSION, None))).await
}

async fn finish(
    store: &MemoryStore,
    testbed: &AuthTestbed,
    (keys, session): (&Sealer, &str),
    login: &SealedLogin,
    redirect: &Redirect,
) -> Result<(), LoginError> {
    let (auth, driver) = instance(store, testbed);
    let finished = auth.finish_login(keys, session, &login.sealed, redirect.clone());
    let status = within(driver.run_until(finished)).await?;
    assert_eq!(status.scopes.unwrap().to_string(), "tools");
    Ok(())
}

/// The user agrees: returns where the page leads.
async fn agree(login: &SealedLogin) -> Redirect {
    Redirect::parse(visit("GET", &login.page.url).await.location().unwrap())
}

/// F109
#[test]
fn another_instance_finishes_a_login_once() {
    run(async {
        let (testbed, store) = (AuthTestbed::new().await, MemoryStore::new());
        let login = begin(&store, &testbed).await.unwrap();
        assert_eq!(login.page.issuer, testbed.base());
        assert!(!format!("{login:?}").contains("state="), "{login:?}");
        let redirect = agree(&login).await;
        finish(&store, &testbed, (&keys(), SESSION), &login, &redirect).await.unwrap();
        let again = finish(&store, &testbed, (&keys(), SESSION), &login, &redirect).await;
        assert_eq!(again, Err(LoginError::Failed(AuthError::LoginUsed)));
        assert_eq!(testbed.requests_to("/token").len(), 1);
        // Every client of the store has the token.
        let (client, _driver) = connect(stored_login(store), &testbed.url());
        call(&client).await.unwrap();
    });
}

/// F109: what is refused is not used up.
#[test]
fn login_is_finished_only_with_its_keys_session_and_redirect() {
    run(async {
        let (testbed, store) = (AuthTestbed::new().await, MemoryStore::new());
        let login = begin(&store, &testbed).await.unwrap();
        let good = agree(&login).await;
        let (mut mixed_up, mut other_page) = (good.clone(), good.clone());
        mixed_up.iss = Some("https://evil.example".to_owned());
        other_page.state = Some(Secret::new("another"));
        let other_keys = Sealer::new(SealKey::new([8; 32]), []);
        let not_finished = LoginError::NotFinished;
        for (keys, session, redirect, error) in [
            (&keys(), "another session", &good, not_finished(FinishError::OtherLogin)),
            (&other_keys, SESSION, &good, not_finished(FinishError::OtherLogin)),
            (&keys(), SESSION, &other_page, not_finished(FinishError::StateMismatch)),
            (&keys(), SESSION, &mixed_up, LoginError::Failed(AuthError::RedirectIssuerMismatch)),
        ] {
            let finished = finish(&store, &testbed, (keys, session), &login, redirect).await;
            assert_eq!(finished, Err(error));
        }
        assert!(testbed.requests_to("/token").is_empty());
        finish(&store, &testbed, (&keys(), SESSION), &login, &good).await.unwrap();
    });
}

/// F109: requests of a browser may come twice, and at the same time.
#[test]
fn operations_of_one_handle_take_turns() {
    run(async {
        let (testbed, store) = (AuthTestbed::new().await, MemoryStore::new());
        let (auth, driver) = instance(&store, &testbed);
        let _driver = smol::spawn(within(driver));
        let keys = keys();
        let begin = || auth.begin_login(&keys, SESSION, None);
        let (first, second) = zip(begin(), begin()).await;
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_ne!(first.page.url, second.page.url);
        let redirect = agree(&first).await;
        let finish = |login: &SealedLogin, redirect: &Redirect| {
            let (auth, keys, sealed, redirect) =
                (auth.clone(), keys.clone(), login.sealed.clone(), redirect.clone());
            async move { auth.finish_login(&keys, SESSION, &sealed, redirect).await.map(|_| ()) }
        };
        let (one, other) = zip(finish(&first, &redirect), finish(&first, &redirect)).await;
        let used = Err(LoginError::Failed(AuthError::LoginUsed));
        assert!((one == Ok(()) && other == used) || (one == used && other == Ok(())), "{one:?} {other:?}");
        let redirect = agree(&second).await;
        let mut slow = pin!(finish(&second, &redirect));
        assert_eq!(poll_once(slow.as_mut()).await, None);
        assert_eq!(finish(&second, &redirect).await, used);
        assert_eq!(slow.await, Ok(()), "a caller that looks late has the result of its own operation");
    });
}

#[test]
fn login_cannot_be_begun_without_a_page() {
    run(async {
        let testbed = AuthTestbed::with(|request| {
            request.path.starts_with("/.well-known").then(|| (404, String::new(), String::new()))
        })
        .await;
        let mut config = AuthConfig::new("test", "http://127.0.0.1/callback");
        config.legacy_discovery = mcp_hyper::mcp_proto::auth::client::LegacyDiscovery::Refused;
        let begun = |config, testbed: &AuthTestbed| {
            let options = modern().authorization(Authorization::new(config));
            let (auth, driver) = options.authorize(testbed.url()).unwrap();
            within(async move { driver.run_until(auth.begin_login(&keys(), SESSION, None)).await })
        };
        let error = begun(config, &testbed).await.unwrap_err();
        assert_eq!(error, LoginError::Failed(AuthError::NoResourceMetadata));

        let testbed = AuthTestbed::new().await;
        let mut config = AuthConfig::new("test", "http://127.0.0.1/callback");
        config.grant = Grant::ClientCredentials;
        let config = config.client_secret(testbed.base(), "machine", Secret::new("hush"));
        assert_eq!(begun(config, &testbed).await.unwrap_err(), LoginError::NoPage);
    });
}
