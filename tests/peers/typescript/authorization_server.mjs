// An independent authorization server for tests/authorization: oidc-provider, on loopback, whose pages accept any user.
//
// Run: authorization_server.mjs PORT RESOURCE
// It issues signed access tokens for RESOURCE only, valid for a few seconds, with one-time refresh tokens.
import { createServer } from 'node:http';
import Provider, { errors } from 'oidc-provider';

const [port, resource] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const scopes = 'notes:read notes:write';

const provider = new Provider(issuer, {
    scopes: ['openid', 'offline_access'],
    pkce: { required: () => true },
    features: {
        dPoP: { enabled: true },
        devInteractions: { enabled: true },
        introspection: { enabled: true },
        registration: { enabled: true },
        revocation: { enabled: true },
        resourceIndicators: {
            enabled: true,
            getResourceServerInfo(_context, indicator) {
                if (indicator !== resource) throw new errors.InvalidTarget();
                return { scope: scopes, audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 3 };
            },
        },
    },
    clientDefaults: { grant_types: ['authorization_code', 'refresh_token'], token_endpoint_auth_method: 'none' },
    issueRefreshToken: (_context, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});
provider.on('server_error', (_context, error) => console.error(error));
const log = (what) => console.log(JSON.stringify(what));
provider.on('grant.success', (context) => log({ grant: context.oidc.params.grant_type }));
provider.on('grant.error', (context, error) => log({ grant: context.oidc.params?.grant_type, refused: error.error, detail: error.error_detail ?? error.error_description }));
provider.on('registration_create.success', (_context, client) => log({ registered: client.clientId }));
provider.on('registration_create.error', (_context, error) => log({ registration: error.error, detail: error.error_description}));
provider.on('authorization.error', (_context, error) => log({ authorization: error.error, detail: error.error_description}));
provider.on('grant.revoked', () => log({ revoked: true }));
createServer(provider.callback()).listen(Number(port), '127.0.0.1', () => log({ issuer }));
