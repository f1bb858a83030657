// Shows the API's description in Swagger UI.
"use strict";

const place = document.getElementById("reference");
SwaggerUIBundle({
  url: place.dataset.url,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
