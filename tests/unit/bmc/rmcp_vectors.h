/* Made with Python's hmac and hashlib, see rmcp_test.c; one row for each cipher suite. */
{3, "1cbbffe14984cd2a014988325de3d6cdc13cda64", "e74462d579647ad939b643bba0c46249996fd1d0",
 "8f34c1fbb0ab1e9a4a991992", "58dbc1afa00eb3f9487c9eaef0dc7892cc43e496"},
    {17, "26e9e21cf57fb1b01642c398dfe5644aa379048817d0639daad195e4dc3c0d04",
     "491445a5a7f0d9b1c5b474a75079f25fd7a930edca5dac8c778e099046a8a376",
     "2e56f433d189e6394cd9c05d402f4d28",
     "b56faef1c37759ee6f92dccb3dfb8a7610c83e064883aa735d3e84c1cb0c5728"},
