//! Tokens signed by OpenSSL, and the public keys; the private keys are lost.

/// The public keys. One of them is too short.
pub(crate) const KEYS: &str = r#"{"keys":[{"kty":"RSA","kid":"rsa","use":"sig","n":"9W7a6b_h9OdQxCxL9jCbWdhDhcoPwE_modfaJew3RFslL4s4yvxXksvuUd6XdL2aXc5ZfRFKxfw9td9EzmkSA32cyl6HU0PoYTfB_JAtgc07ERNA_z3usVbD_KpBSTAKsM1d-yiOSJ_uSMaBJUK185wv0DwEksqT4glUDTcLNsjcHUZSiUIOzQsBnZvx4Pk0omuEac5iXwDLGw5NKdAEIh5L45AqahV3FTi-18GGiXX0Po5vqWp1GxiNQFKJs7rBbtbqEKh72IdLbhvFOU9gHN4OpKN-1t95Igh06kRWgK7r_oIC3L10Fv85w2VHA8mWO3-2J_R8KtRt4DtC4c1eiQ","e":"AQAB"},{"kty":"RSA","kid":"weak","use":"sig","n":"3OhvivYMeKR2kARRUrgIOnAEqcM1Cy7CzhTfR2IKuDGdukcFnirua_lCHIduzs1ANGBKhDnAk5r8r3SJJ46m1eXI4YAXWXTxdmQALWrjPc7JFLod_eSI2t7xSfcNTclwgbt3iXSbaL3rtHdIJPxXEiPJ3sulk0Rn8N8_9sUPNOE","e":"AQAB"},{"kty":"EC","kid":"p256","crv":"P-256","x":"pX1yyjvwRSUqrcbYTAxzEuWZ8wFVVqbul4eDnSEku-M","y":"Ulo_q-crGKsU6LxRXmtFKI8XS1lPRgDsu5wg3khyBjs"},{"kty":"EC","kid":"p384","crv":"P-384","x":"zyheknHdR1jIBRi_UL126TXWDZRWQmIXrpTDaFh4ni2RQELp1qJfEFWSLh0SEdiE","y":"P-mqs7xTbtEE8Biiuy4Vk5teY4SrffKbqNxDxNJ6E38iZbwQOODds6NpvuyPKJwS"},{"kty":"OKP","kid":"ed","crv":"Ed25519","alg":"EdDSA","x":"AebmV0i5KREzgAz9ttns6XILpzw0OzPpfvKWGY7M4Eo"}]}"#;

/// An algorithm, and a token signed with it.
pub(crate) const TOKENS: [(&str, &str); 9] = [
    (
        "RS256",
        "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.3DEE3JubGj9m8YlYpBtF2dqAWoTz8P-ouEkU-Nr4X743N_QstE-JslMPWUjrGPQGsWK5FOdPpgROWIsUIORqS1qua4WNFVmWztvKKijoP49Rl3sewKZVHSM4cZX3tZ3MGFZsOdONie2o1ByYkem5dlkyaeb1z7PUBeyKdjbN_-2b90mdHMibWYTYIXJqtHW-YxpK-mFR8eMvDw-Q0k0dq0Kfrh51kcJE7ZXHat4tCsosor0In5k3D9M3eZf9qYUrHYfJltO-vU12PRPnoutvs1vAcdgJui94dferEk8EDzsLOyk73c8QUywGtN0NebBwkIA4Y9Kz9BEHL4dew3DNqg",
    ),
    (
        "RS384",
        "eyJhbGciOiJSUzM4NCIsImtpZCI6InJzYSIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.D7cZi7zcBTCdR_KrIP0cDF1tiA7HfbdJK7jdd7m5vMWeKuWAnStzFEXL_v6pIn0dT9c_UnUxw0p_YrvCyAE0_i1e9BIRCfa7UqkmY2YNfxPnZ-Ncq__zsdWciaJMW249XYTTwV8b3BQDo3BN71FFBcB5qVD0lqMTop4XgbrztajY5P7B5MYOpomEvyGNoUwzpYZd3Q9uktshU1BYJruKOKD9OIksZas4ApplHtUsmkCGzz1JtTPRNNrz-d0lOri-18UFIAn82SPY-QwYI4MRVgmvTe2HikGzDLtMnABL2y_sMaxHdxnNWIQrHu1W4baLr8c1vWtgdpeV74BOfmAbmg",
    ),
    (
        "RS512",
        "eyJhbGciOiJSUzUxMiIsImtpZCI6InJzYSIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.Rw-SO1IFcQ7wZzDTLJteQ64jcK-m5EmrOhb5rwWspJmDOK1jLGW400xNeVH7NTXZr2A-iWxnNVbr2s71E983w5CCowjVGOIXo716EGJWIkycwSshMG1Y7Z7Upe52Lgxwtqko_xnQNzJuYHzblFS4POXon4uC_H1Wz5tMYNDKSDgS8DbGlKIT9fyMGSdb_EFvbfXYOiFkN7Yb28dGVyTRzvTe4AuPvaC83OQtOd2vwuD0mnxvF5JX14GekfDpgHFzw7XbVD_EL5xjKZj6Fph76kkQZ3q60iYFDQkvOxCKdu7KC2Myc1TB5knindkhcdAEvJCFD20r7tdn-ve7BSGunQ",
    ),
    (
        "PS256",
        "eyJhbGciOiJQUzI1NiIsImtpZCI6InJzYSIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.izObwdHg0Aafef14mLbM2B5ApXHoll_EO8VjYyxDtL4tAHWoeY8cvt8QSTv5KjiSiqGLfrzNvPD6OSf0V3DXbTlDUI9nZ6DWD5N8p7hI-ZqIvCZ13fMFCz3-Wx9dUM-Ve8SyeCaSF4xhr9UWiTtJ10YbI6JW0F-Q7aWMEV9a967_jFWw03P3BMD3gKP0oUf5Wd5iUMXnPxKrisHImAGkljNGATjV0CAMA6ksACKugQeDNv6fXvgVCScKe3AiRU5KvfSh9ppa_akGKx9jrtCmmRkTsC-1Oc6FEKZJetson0OdFT4LeUq2iXZjRAopus5BBqOHQ5-Vm7tTClMun9ZfuQ",
    ),
    (
        "PS384",
        "eyJhbGciOiJQUzM4NCIsImtpZCI6InJzYSIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.JxOSOniD1waidMUQQWhXnEH6F47D4HBW4g4bcBdaiWQq0IOVHr42_yFVdBT-iMq2dbMGcqEoooUZXzlyOru-eHnbdPLgOQzs91bkbHSgGhrg52YqXU-ULOk8lfPBFeah-Rq2iuDRsxCYOpXha1m9vNw2TJRxdIT-gjbpOqN79dmwLtUzECp1HLUZfALD2mDhYisgUGKJ8iogvMDbYZoq3Siz2YKQzg60ZpnQ-JaaDemmheM8CN9bc4LjP3lZKCiTV49vnm0AG5CQqO1xDK7ivBF6L90WN0GcbW6IeYvQU6CLYIkdjO6NlY4PoKL2SvG_3X_KzDPYbh0yULezVmLu0Q",
    ),
    (
        "PS512",
        "eyJhbGciOiJQUzUxMiIsImtpZCI6InJzYSIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.Yk4phCZryNAuZpa_NIsmdMJCZfJ2mOaTs8DDo3UDi_1Pgozdv11yfvByce7FWHeihnCIPFsGH8yNEWIMJZ2uYc7hBSiEfVExxuSsMn-PnomthD8D0ENy-w4TZGcqDpU1V69IHUgFIp_9JLabyetwfQ9niqOZ6EEBDmLON8exFE3sHciNntnnTTgGuosY2hjuRk8e3cBewM2PJOaPURpLCpokAEtkKOZnIUZVhivM3XkPy6Qv_NQzIui-gna9lrR4Ep4dyepqo6CbX_3z2ORU9imgXBqqIDjyKywmag9JoLTb5UexifxSAZrsWGQ5OHdvI5CQr-c0rKX-Q12WZzA9AQ",
    ),
    (
        "ES256",
        "eyJhbGciOiJFUzI1NiIsImtpZCI6InAyNTYiLCJ0eXAiOiJhdCtqd3QifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.4V67zKpC050GX_q2aE8SoxKz3dh1ml2ugmWPEBsxS6FH4UNbniGYjCL2a50R96zENWSTDesgIyM_G1EHx3QsHA",
    ),
    (
        "ES384",
        "eyJhbGciOiJFUzM4NCIsImtpZCI6InAzODQiLCJ0eXAiOiJhdCtqd3QifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.jzaeEPncxzj7rHSMrpqNKnNqUVh7ldRL5xgWBqgVNTNdnaj7X_mDtpk9a-eyu6BdIk1Rl_Fj8Wlf9qsvnqrFtrg2VOjR7o0_-iHnj8uBROYIg0Xlukk13_UssxSuk4zi",
    ),
    (
        "EdDSA",
        "eyJhbGciOiJFZERTQSIsImtpZCI6ImVkIiwidHlwIjoiYXQrand0In0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.Q65jhPVU_6H-QwdOPYKioY38UEe8-QUhON2pGDIeyO0YmY7XWEV4M9Q9xd5S-k01BEqzL_oKC9maASdnn7SFCQ",
    ),
];

/// A token signed with the key that is too short.
pub(crate) const WEAK: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IndlYWsiLCJ0eXAiOiJhdCtqd3QifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUiLCJzdWIiOiJhZGEiLCJhdWQiOiJodHRwczovL21jcC5leGFtcGxlL21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.b2hXvRPGhYXZcA8VZwQAjKdxGTbT0Qv4GyZp9L20alLQVvlqRqgXoeTGz_wrNE2k4W0DA0Q-jojz26lrYpdvVoF-Dq2y4Xd7T7SWcdg2hpEdLnfzX7x0PDZ_aN1JDNNiEwfmuHlJV8qiq3f9tfYgMH3Iz7ZUpdSMENkpkx3ICZY";
